package pack

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// about is what the first record of a pack tells of it, as lines of text.
type about struct {
	previous uint64
	end      int64 // of previous
	moved    bool
}

const (
	aboutTitle = "penstock pack"
	maxAbout   = 64 << 10
)

func aboutText(o *Options, key *Key) string {
	return fmt.Sprintf(aboutTitle+"\nformat %d\nfeatures %d\ndisk %s\npack %016x\nkey %x\nprevious %016x\nend %d\nmoved %t\n",
		Format, Features, o.Disk, o.ID, key.raw, o.Previous, o.End, o.Moved)
}

// readAbout reads the first record. Its head is verified with the key that it
// tells itself, so that a sound pack at the wrong place is told from a damaged
// one.
func (f *File) readAbout() error {
	var block [Block]byte
	if err := f.readAt(block[:], 0); err != nil {
		return err
	}
	h, err := decodeHead(block[:], nil, 0)
	if object.Is(err, object.Invalid) {
		return err
	}
	if err != nil || h.Kind != head || h.Payload > maxAbout {
		return f.damaged(0, "pack does not begin with its head")
	}
	text := make([]byte, h.Payload)
	if err := f.readAt(text, Block); err != nil {
		return err
	}
	if crc32.ChecksumIEEE(text) != h.crc {
		return f.damaged(0, "checksum of the pack's head does not match")
	}
	var p aboutParser
	if !p.parse(string(text)) || !p.key.verify(block[:], 0) {
		return f.damaged(0, "pack's head is malformed")
	}
	if p.format != Format || p.features&^Features != 0 {
		return object.Errorf(object.Invalid, "pack %016x has format %d and features %#x; this version reads format %d and features %#x", f.id, p.format, p.features, Format, Features)
	}
	if p.id != f.id {
		return object.Errorf(object.Invalid, "pack %016x is a copy of pack %016x", f.id, p.id)
	}
	if f.key == nil {
		f.key = &p.key
	}
	if f.key.raw != p.key.raw {
		return object.Errorf(object.Invalid, "pack %016x belongs to another disk: it was not made with this one's secret", f.id)
	}
	f.about = p.about
	return nil
}

type aboutParser struct {
	about
	format, features, id uint64
	key                  Key
}

// parse reads the text; lines it does not know are left to later versions, which
// announce by a feature what must be known.
func (p *aboutParser) parse(text string) bool {
	text, ok := strings.CutPrefix(text, aboutTitle+"\n")
	if !ok {
		return false
	}
	keyed := false
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		var err error
		switch name {
		case "format":
			p.format, err = strconv.ParseUint(value, 10, 64)
		case "features":
			p.features, err = strconv.ParseUint(value, 10, 64)
		case "pack":
			p.id, err = strconv.ParseUint(value, 16, 64)
		case "previous":
			p.previous, err = strconv.ParseUint(value, 16, 64)
		case "end":
			p.end, err = strconv.ParseInt(value, 10, 64)
		case "moved":
			p.moved, err = strconv.ParseBool(value)
		case "key":
			var key []byte
			key, err = hex.DecodeString(value)
			keyed = copy(p.key.raw[:], key) == len(p.key.raw) && len(key) == len(p.key.raw)
		}
		if err != nil {
			return false
		}
	}
	return keyed
}
