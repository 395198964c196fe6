package wire

import (
	"cmp"
	"encoding/binary"

	"penstock.dev/penstock/internal/object"
)

// What follows a reference's key.
const (
	hasMember = 1 << iota
	hasRange
	hasBucket
	hasCRC32

	allFlags = hasMember | hasRange | hasBucket | hasCRC32
)

const (
	refsHead    = 14
	smallestRef = 4 // no flags, a key of one byte
)

// AppendRefs appends the request for refs to b. A reference without a bucket of
// its own means the given one, which may be empty if all have theirs. It takes
// exactly what ParseRefs takes; otherwise it returns b as it was, and Invalid.
func AppendRefs(b []byte, bucket string, refs []object.Ref) ([]byte, error) {
	if len(refs) > MaxRefs {
		return b, invalid("%d references are more than %d", len(refs), MaxRefs)
	}
	if bucket != "" {
		if err := object.ValidateBucket(bucket); err != nil {
			return b, err
		}
	}
	out := append(b, refsMagic...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(refs)))
	out = appendString(out, bucket)
	checked := bucket // what was checked last: neighbours tend to share it
	for i := range refs {
		r := &refs[i]
		own := cmp.Or(r.Name.Bucket, bucket)
		err := checkRef(r)
		if err == nil && (own != checked || own == "") {
			err = object.ValidateBucket(own)
			checked = own
		}
		if err != nil {
			return b, invalid("reference %d: %w", i, err)
		}
		out = appendRef(out, r, own != bucket)
	}
	return out, nil
}

func appendRef(b []byte, r *object.Ref, own bool) []byte {
	var flags byte
	if r.Member != "" {
		flags |= hasMember
	}
	if r.Range != (object.Range{}) {
		flags |= hasRange
	}
	if own {
		flags |= hasBucket
	}
	if r.Checked {
		flags |= hasCRC32
	}
	b = append(b, flags)
	b = appendString(b, r.Name.Key)
	if flags&hasMember != 0 {
		b = appendString(b, r.Member)
	}
	if flags&hasRange != 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Range.Offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Range.Length))
	}
	if own {
		b = appendString(b, r.Name.Bucket)
	}
	if r.Checked {
		b = binary.LittleEndian.AppendUint32(b, r.CRC32)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// ParseRefs reads what AppendRefs wrote. It does not keep data. The strings of
// all references share one copy of it, so one that is kept keeps all.
func ParseRefs(data []byte) ([]object.Ref, error) {
	if len(data) < refsHead || string(data[:len(refsMagic)]) != refsMagic {
		return nil, invalid("the request does not begin with %q and a number of references", refsMagic)
	}
	count := binary.LittleEndian.Uint32(data[8:])
	if count > MaxRefs {
		return nil, invalid("%d references are more than %d", count, MaxRefs)
	}
	if int(count) > (len(data)-refsHead)/smallestRef {
		return nil, invalid("%d references do not fit into %d bytes", count, len(data))
	}
	c := cursor{data: data, text: string(data), at: refsHead - 2}
	bucket, ok := c.string()
	if !ok {
		return nil, invalid("the request ends in the name of the bucket")
	}
	if bucket != "" {
		if err := object.ValidateBucket(bucket); err != nil {
			return nil, err
		}
	}
	c.bucket, c.checked = bucket, bucket
	refs := make([]object.Ref, count)
	for i := range refs {
		at := c.at
		if err := c.ref(&refs[i]); err != nil {
			return nil, invalid("reference %d, at byte %d: %w", i, at, err)
		}
	}
	if c.at != len(data) {
		return nil, invalid("%d bytes follow the last reference", len(data)-c.at)
	}
	return refs, nil
}

// cursor walks through a request. Numbers are taken from data, strings from text,
// which is its copy.
type cursor struct {
	data    []byte
	text    string
	at      int
	bucket  string // of references that have none of their own
	checked string // the bucket that was checked last
}

// string takes two bytes of length and as many bytes.
func (c *cursor) string() (s string, ok bool) {
	if len(c.data)-c.at < 2 {
		return "", false
	}
	from := c.at + 2
	to := from + int(binary.LittleEndian.Uint16(c.data[c.at:]))
	if to > len(c.data) {
		return "", false
	}
	c.at = to
	return c.text[from:to], true
}

func (c *cursor) ref(r *object.Ref) error {
	if c.at == len(c.data) {
		return invalid("the request ends")
	}
	flags := c.data[c.at]
	c.at++
	if flags&^allFlags != 0 {
		return invalid("unknown flags %#x", flags)
	}
	key, ok := c.string()
	if !ok {
		return invalid("the request ends in the key")
	}
	r.Name.Key = key
	if flags&hasMember != 0 {
		switch r.Member, ok = c.string(); {
		case !ok:
			return invalid("the request ends in the member's name")
		case r.Member == "":
			return invalid("the member's name is empty")
		}
	}
	if flags&hasRange != 0 {
		if len(c.data)-c.at < 16 {
			return invalid("the request ends in the range")
		}
		r.Range.Offset = int64(binary.LittleEndian.Uint64(c.data[c.at:]))
		r.Range.Length = int64(binary.LittleEndian.Uint64(c.data[c.at+8:]))
		c.at += 16
	}
	if r.Name.Bucket = c.bucket; flags&hasBucket != 0 {
		if r.Name.Bucket, ok = c.string(); !ok {
			return invalid("the request ends in the bucket's name")
		}
	}
	if r.Checked = flags&hasCRC32 != 0; r.Checked {
		if len(c.data)-c.at < 4 {
			return invalid("the request ends in the checksum")
		}
		r.CRC32 = binary.LittleEndian.Uint32(c.data[c.at:])
		c.at += 4
	}
	if r.Name.Bucket != c.checked || r.Name.Bucket == "" {
		if err := object.ValidateBucket(r.Name.Bucket); err != nil {
			return err
		}
		c.checked = r.Name.Bucket
	}
	return checkRef(r)
}
