package index

import "bytes"

// cursor walks over the entries of one block. The zero cursor is over an empty
// block.
type cursor struct {
	block   block
	next    int // where the next entry begins
	number  int // of the next entry
	key     []byte
	value   []byte
	deleted bool
}

// open puts the cursor before the first entry of a block.
func (c *cursor) open(data []byte) (err error) {
	c.block, err = parseBlock(data)
	c.next, c.number = 0, 0
	return err
}

// step moves to the next entry; false at the end of the block.
func (c *cursor) step() (bool, error) {
	if c.number >= c.block.count {
		return false, nil
	}
	e, ok := c.block.entry(c.next)
	if !ok {
		return false, errBlock
	}
	suffix := c.block.entries[e.suffix:e.value]
	if c.number%restartEvery == 0 {
		if e.shared > len(c.block.first) {
			return false, errBlock
		}
		c.key = append(append(c.key[:0], c.block.first[:e.shared]...), suffix...)
	} else {
		if e.shared > len(c.key) {
			return false, errBlock
		}
		c.key = append(c.key[:e.shared], suffix...)
	}
	c.value, c.deleted = c.block.entries[e.value:e.end], e.deleted
	c.next = e.end
	c.number++
	return true, nil
}

// seek moves to the first entry of the block that is not before key; false if
// all are before it.
func (c *cursor) seek(key []byte) (bool, error) {
	i, ok := c.block.section(key)
	if !ok {
		return false, errBlock
	}
	i = max(i, 0)
	// From an entry of the same section that is before key it can just go on.
	if section := i * restartEvery; c.number <= section || bytes.Compare(c.key, key) >= 0 {
		c.next, c.number = c.block.restart(i), section
	}
	for {
		if ok, err := c.step(); !ok || err != nil {
			return false, err
		}
		if bytes.Compare(c.key, key) >= 0 {
			return true, nil
		}
	}
}
