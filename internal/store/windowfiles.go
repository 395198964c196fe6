package store

import (
	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// windowFiles are the files that the items of a window lie in, numbered in the order
// they were met, and open until the window is done.
type windowFiles struct {
	files  []windowFile
	number map[fileKey]int // negative: it cannot be read
	blobs  int             // of the files
}

// maxWindowBlobs bounds the blobs that a window has open: there may be many windows,
// and their clients may be slow.
const maxWindowBlobs = 64

// fileKey is a pack, with no offset, or a record that has its content in a blob.
type fileKey struct {
	drive *drive
	spot
}

type windowFile struct {
	disk.File
	drive *drive
	pack  *packFile
	blob  *blobReader
}

// letGo gives the files back.
func (f *windowFiles) letGo() {
	for _, file := range f.files {
		if file.blob != nil {
			file.blob.Close() //nolint:errcheck // opened for reading
		} else {
			file.drive.files.release(file.pack)
		}
	}
	clear(f.files)
	f.files, f.blobs = f.files[:0], 0
	clear(f.number)
}

func (f *windowFiles) add(key fileKey, file windowFile) int {
	f.files = append(f.files, file)
	f.number[key] = len(f.files) - 1
	return len(f.files) - 1
}

// inPack returns the number of a pack, negative if it cannot be read.
func (f *windowFiles) inPack(d *drive, id uint64) int {
	key := fileKey{d, spot{pack: id}}
	if n, ok := f.number[key]; ok {
		return n
	}
	f.number[key] = -1
	if d.readable() != nil {
		return -1
	}
	p, err := d.files.acquire(id)
	if err != nil {
		return -1
	}
	return f.add(key, windowFile{File: p.Raw(), drive: d, pack: p})
}

// inBlob returns the number of the blob that a checked reference leads into, and
// where in it; a negative one if it must be read in another way.
func (f *windowFiles) inBlob(d *drive, it *wanted) (n int, offset int64) {
	p := &it.place
	key := fileKey{d, spot{p.pack, p.offset}}
	n, ok := f.number[key]
	if !ok {
		if f.blobs == maxWindowBlobs || d.readable() != nil {
			return -1, 0
		}
		n, f.number[key] = -1, -1
		b, err := d.describeBlobs(p, it.ref.Name, object.Range{}, false)
		if err != nil {
			return -1, 0
		}
		n = f.add(key, windowFile{drive: d, blob: b})
		f.blobs++
	}
	if n < 0 {
		return n, 0
	}
	file := &f.files[n]
	if p.names(file.blob.rec, it.ref.Name) != nil {
		return -1, 0 // another name with this hash
	}
	at, ok := file.blob.plain(it.ref.Range.Offset, it.ref.Range.Length)
	if !ok {
		return -1, 0
	}
	file.File = file.blob.file
	return n, at.Offset + at.offset
}
