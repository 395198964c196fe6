package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Verify reads every block of every run from the disk and checks all there is to
// check, the parts that are in memory too. It calls found for everything that is
// damaged and goes on; its error says only that it could not finish: the drive
// failed or ctx ended. May be called concurrently with everything.
func (x *Index) Verify(ctx context.Context, found func(file string, offset int64, detail string)) error {
	v := x.acquire()
	if v == nil {
		return errClosed
	}
	defer x.release(v)
	if err := x.verifyCheckpoint(found); err != nil {
		return err
	}
	for _, r := range v.runs {
		if err := r.verify(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

func (x *Index) verifyCheckpoint(found func(string, int64, string)) error {
	x.install.Lock() // nobody replaces it meanwhile
	defer x.install.Unlock()
	c, err := readCheckpoint(x.fs, x.dir)
	switch {
	case errors.Is(err, ErrDamaged):
		found(checkpointName, 0, err.Error())
		return nil
	case err == nil && c.state == nil && x.install.state != nil:
		found(checkpointName, 0, "the checkpoint is missing")
	}
	return err
}

// verify checks one run.
func (r *run) verify(ctx context.Context, found func(string, int64, string)) error {
	again := &run{number: r.number, name: r.name, size: r.size, file: r.file}
	if err := again.load(r.ref()); errors.Is(err, ErrDamaged) {
		found(r.name, 0, err.Error())
	} else if err != nil {
		return err
	}
	var c cursor
	var buf, last []byte
	entries, deletes := uint64(0), uint64(0)
	whole := true
	for i := range r.index.len() {
		if err := canceled(ctx); err != nil {
			return err
		}
		offset, _ := r.index.extent(i)
		data, err := r.block(i, buf)
		if err == nil {
			buf = data
			var n, d uint64
			n, d, last, err = r.verifyBlock(&c, i, data, last)
			entries, deletes = entries+n, deletes+d
		}
		if errors.Is(err, ErrDamaged) {
			found(r.name, offset, err.Error())
			whole = false
		} else if err != nil {
			return err
		}
	}
	if whole && (entries != r.footer.entries || deletes != r.footer.deletes) {
		found(r.name, r.size-footerSize, fmt.Sprintf("the footer counts %d entries and %d deletes, the blocks hold %d and %d",
			r.footer.entries, r.footer.deletes, entries, deletes))
	}
	return nil
}

// verifyBlock checks the sense of a block whose checksum holds: that its keys
// follow each other, last (the one before the block) and the block's separator,
// and that the filter knows them. It returns the counts and the last key.
func (r *run) verifyBlock(c *cursor, i int, data, last []byte) (entries, deletes uint64, _ []byte, err error) {
	if err := c.open(data); err != nil {
		return 0, 0, last, r.senseless(i, err)
	}
	for {
		ok, err := c.step()
		if err != nil {
			return entries, deletes, last, r.senseless(i, err)
		}
		if !ok {
			break
		}
		switch {
		case entries == 0 && bytes.Compare(c.key, r.index.separator(i)) < 0:
			err = errors.New("the block begins before its separator")
		case (entries > 0 || i > 0) && bytes.Compare(last, c.key) >= 0:
			err = errors.New("the keys are not in order")
		case !r.filter.has(filterHash(c.key)):
			err = errors.New("the filter does not know a key")
		}
		if err != nil {
			return entries, deletes, last, r.senseless(i, err)
		}
		last = append(last[:0], c.key...)
		entries++
		if c.deleted {
			deletes++
		}
	}
	if c.next != len(c.block.entries) {
		return entries, deletes, last, r.senseless(i, errors.New("the block has bytes behind its last entry"))
	}
	return entries, deletes, last, nil
}
