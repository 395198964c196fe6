package manifest

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"penstock.dev/penstock/internal/object"
)

// assemble writes a manifest of the given sections to a new file, makes it durable
// and renames it to path. If the head has a logical hash already it must come out
// again.
func assemble(path string, h *head, parts []part) (err error) {
	file, err := createBeside(path)
	if err != nil {
		return failed("write manifest", err)
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name())
		}
	}()
	if err := writeFile(file, h, parts); err != nil {
		var known *object.Error
		if !errors.As(err, &known) {
			err = failed("write manifest", err)
		}
		return err
	}
	if err := file.Sync(); err != nil {
		return failed("write manifest", err)
	}
	if err := file.Close(); err != nil {
		return failed("write manifest", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return failed("write manifest", err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return failed("write manifest", err)
	}
	return nil
}

// createBeside makes a new file in the directory of path. Unlike those of
// os.CreateTemp it may be read by whom the user's mask allows.
func createBeside(path string) (*os.File, error) {
	for {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".manifest-%016x.tmp", rand.Uint64()))
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}

// writeFile leaves room for the head, writes sections and table, and then the head:
// only then are all hashes known.
func writeFile(file *os.File, h *head, parts []part) error {
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.item, b.item))
	})
	h.sections = make([]section, len(parts))
	length := int64(len(h.encode()))
	if length > maxHead {
		return invalid("the manifest's head would have %d bytes, more than %d", length, maxHead)
	}
	if _, err := file.Seek(length, io.SeekStart); err != nil {
		return err
	}
	out := &blockWriter{to: bufio.NewWriterSize(file, 1<<20), offset: length}
	logical := sha256.New()
	logical.Write(h.description())
	for i, p := range parts {
		if err := out.pad(); err != nil {
			return err
		}
		h.sections[i] = section{id: p.id, offset: out.offset, length: p.length}
		var w io.Writer = out
		if p.kind < firstIndex {
			announce(logical, h.sections[i])
			w = io.MultiWriter(out, logical)
		}
		if err := p.write(w); err != nil {
			return err
		}
		if out.offset != h.sections[i].offset+p.length {
			return object.Errorf(object.Internal, "the %v have %d bytes and not %d", p.id, out.offset-h.sections[i].offset, p.length)
		}
	}
	if err := out.pad(); err != nil {
		return err
	}
	was := h.logical
	if logical.Sum(h.logical[:0]); was != h.logical && was != [sha256.Size]byte{} {
		return corrupt("the samples are not those of the manifest they come from")
	}
	h.tableAt = out.offset
	table := out.table()
	h.table = sha256.Sum256(table)
	if _, err := out.to.Write(table); err != nil {
		return err
	}
	if err := out.to.Flush(); err != nil {
		return err
	}
	_, err := file.WriteAt(h.encode(), 0)
	return err
}

// announce tells the logical hash which section comes next.
func announce(logical hash.Hash, s section) {
	var b [12]byte
	little.PutUint16(b[:], uint16(s.kind))
	little.PutUint16(b[2:], s.item)
	little.PutUint64(b[4:], uint64(s.length))
	logical.Write(b[:])
}

// blockWriter counts bytes and takes the checksums of blocks as they pass.
type blockWriter struct {
	to     *bufio.Writer
	offset int64 // in the file
	crc    uint32
	sums   []byte
}

func (b *blockWriter) Write(p []byte) (int, error) {
	n, err := b.to.Write(p)
	for p = p[:n]; len(p) > 0; {
		room := 1<<blockBits - b.offset&(1<<blockBits-1)
		now := p[:min(int64(len(p)), room)]
		p = p[len(now):]
		b.crc = crc32.Update(b.crc, crc32.IEEETable, now)
		if b.offset += int64(len(now)); int64(len(now)) == room {
			b.sums = little.AppendUint32(b.sums, b.crc)
			b.crc = 0
		}
	}
	return n, err
}

// pad writes zeros up to where a section may begin.
func (b *blockWriter) pad() error {
	_, err := b.Write(make([]byte, align(b.offset)-b.offset))
	return err
}

// table returns the checksums of all blocks, the last one included that is not full.
func (b *blockWriter) table() []byte {
	if b.offset&(1<<blockBits-1) != 0 {
		b.sums = little.AppendUint32(b.sums, b.crc)
		b.crc = 0
	}
	return b.sums
}
