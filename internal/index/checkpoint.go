package index

import (
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"path"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// checkpoint is the file that makes runs an index: it names them, newest first,
// and holds the state the caller stored with them. Replacing it is the one step by
// which the index on disk changes.
type checkpoint struct {
	runs  []runRef
	state []byte // nil only if there is no checkpoint
}

const (
	refSize       = 28      // number(u64) size(u64) entries(u64) crc(u32)
	maxCheckpoint = 1 << 30 // larger ones are neither written nor believed
)

func (c *checkpoint) append(buf []byte) []byte {
	start := len(buf)
	buf = appendHeader(buf, checkpointMagic)
	buf = little.AppendUint32(buf, uint32(len(c.runs)))
	buf = little.AppendUint32(buf, uint32(len(c.state)))
	for _, r := range c.runs {
		buf = little.AppendUint64(buf, r.number)
		buf = little.AppendUint64(buf, uint64(r.size))
		buf = little.AppendUint64(buf, r.entries)
		buf = little.AppendUint32(buf, r.crc)
	}
	buf = append(buf, c.state...)
	return little.AppendUint32(buf, crc32.ChecksumIEEE(buf[start:]))
}

// parseCheckpoint reads a checkpoint and says what is wrong with it, if anything
// is. It is safe on any bytes.
func parseCheckpoint(b []byte) (c checkpoint, wrong string) {
	const fixed = headerSize + 8
	if wrong := checkHeader(b, checkpointMagic); wrong != "" {
		return c, wrong
	}
	if len(b) < fixed+4 || crc32.ChecksumIEEE(b[:len(b)-4]) != little.Uint32(b[len(b)-4:]) {
		return c, "the checkpoint does not verify"
	}
	runs, state := uint64(little.Uint32(b[headerSize:])), uint64(little.Uint32(b[headerSize+4:]))
	if uint64(len(b)) != fixed+runs*refSize+state+4 {
		return c, "the checkpoint makes no sense"
	}
	b = b[fixed : len(b)-4]
	c.runs = make([]runRef, runs)
	for i := range c.runs {
		c.runs[i] = runRef{number: little.Uint64(b), size: int64(little.Uint64(b[8:])), entries: little.Uint64(b[16:]), crc: little.Uint32(b[24:])}
		b = b[refSize:]
	}
	c.state = append([]byte{}, b...)
	return c, ""
}

// readCheckpoint returns the checkpoint in dir, an empty one if there is none.
func readCheckpoint(fsys disk.FS, dir string) (c checkpoint, err error) {
	f, err := fsys.Open(path.Join(dir, checkpointName))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, diskError("opening", checkpointName, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return c, diskError("reading", checkpointName, err)
	}
	if size > maxCheckpoint {
		return c, damagedf(checkpointName, 0, "%d bytes are too many", size)
	}
	buf := make([]byte, size)
	if n, err := f.ReadAt(buf, 0); err != nil && (n < len(buf) || err != io.EOF) {
		return c, diskError("reading", checkpointName, err)
	}
	c, wrong := parseCheckpoint(buf)
	if wrong != "" {
		return c, damagedf(checkpointName, 0, "%s", wrong)
	}
	return c, nil
}

// writeCheckpoint replaces the checkpoint. sure is false if it failed in a way
// that leaves open which of the two a crash would show.
func writeCheckpoint(fsys disk.FS, dir string, c checkpoint) (sure bool, err error) {
	data := c.append(nil)
	if len(data) > maxCheckpoint {
		return true, object.Errorf(object.Invalid, "a checkpoint of %d bytes is too large", len(data))
	}
	temporary := path.Join(dir, temporaryName)
	if err := fsys.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, diskError("removing", temporaryName, err)
	}
	f, err := fsys.Create(temporary)
	if err != nil {
		return true, diskError("creating", temporaryName, err)
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		fsys.Remove(temporary) // or the next try does
		return true, diskError("writing", temporaryName, err)
	}
	if err := fsys.Rename(temporary, path.Join(dir, checkpointName)); err != nil {
		fsys.Remove(temporary) // if it is still there
		return false, diskError("renaming", temporaryName, err)
	}
	return false, diskError("syncing directory", dir, fsys.SyncDir(dir))
}
