package disk

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"

	"penstock.dev/penstock/internal/object"
)

// Small files that are truth (identity, roster) are sealed: a first line with
// magic, kind, format version, feature bits and checksum, then the content.
//
//	penstock identity 1 0 8f3a2c11
//	{...}
//
// The checksum is over the line before it and the content, in every format version:
// a sound line with another version is another version, all else is damage.
// They are replaced as a whole and read as a whole.

const maxSealed = 16 << 20

// WriteSealed replaces a file by new content, durably, in one step.
func WriteSealed(fsys FS, name, kind string, format int, content []byte) error {
	data := fmt.Appendf(nil, "penstock %s %d %d ", kind, format, 0)
	data = fmt.Appendf(data, "%08x\n", sealSum(data, content))
	return replace(fsys, name, append(data, content...))
}

func sealSum(line, content []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(line), crc32.IEEETable, content)
}

// replace writes a temporary file and gives it the name. A spare one that is
// there already is used, so that it works on a disk without free inodes or blocks.
func replace(fsys FS, name string, data []byte) error {
	temp := spareName(name)
	f, err := fsys.OpenWrite(temp)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(temp)
	}
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.Rename(temp, name)
	}
	if err != nil {
		return err // what is left of the temporary file is overwritten next time
	}
	return fsys.SyncDir(path.Dir(name))
}

func spareName(name string) string { return name + ".spare" }

// KeepSpare makes sure that a sealed file can be replaced when the disk is full:
// it reserves what the next replacement of up to a block needs. It does what it
// can; the replacement itself tells whether it was enough.
func KeepSpare(fsys FS, name string) {
	f, err := fsys.Create(spareName(name))
	if err != nil {
		return
	}
	f.Allocate(4 << 10) //nolint:errcheck // as said above
	f.Close()           //nolint:errcheck // nothing was written
}

// ReadSealed returns a sealed file's content: NotFound if there is none, Corrupt
// if it does not verify, Invalid if a newer version made it.
func ReadSealed(fsys FS, name, kind string, format int) ([]byte, error) {
	data, err := readAll(fsys, name)
	if err != nil {
		return nil, err
	}
	line, content, ok := bytes.Cut(data, []byte("\n"))
	var gotKind string
	var gotFormat int
	var features, crc uint32
	n, _ := fmt.Sscanf(string(line), "penstock %s %d %d %x", &gotKind, &gotFormat, &features, &crc)
	if !ok || n != 4 || gotKind != kind {
		return nil, object.Errorf(object.Corrupt, "%s is not a penstock %s file", name, kind)
	}
	if sealSum(line[:bytes.LastIndexByte(line, ' ')+1], content) != crc {
		return nil, object.Errorf(object.Corrupt, "%s does not match its checksum", name)
	}
	if gotFormat != format || features != 0 {
		return nil, object.Errorf(object.Invalid, "%s has format %d and features %#x; this version reads format %d", name, gotFormat, features, format)
	}
	return content, nil
}

func readAll(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, object.Errorf(object.NotFound, "%w", err)
	}
	if err != nil {
		return nil, object.Errorf(object.Unavailable, "%w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, object.Errorf(object.Unavailable, "%w", err)
	}
	if size > maxSealed {
		return nil, object.Errorf(object.Corrupt, "%s of %d bytes is too large", name, size)
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); int64(n) < size {
		return nil, object.Errorf(object.Unavailable, "%s: %w", name, err)
	}
	return data, nil
}
