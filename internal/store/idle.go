package store

import (
	"slices"
	"sync"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/pack"
)

// idleBlobs keeps blobs open between two reads of the same object, with the record
// that describes them: reads of hot objects, and of large ones piece by piece, cost
// neither open nor close. Each open file serves one reader at a time, since the
// kernel keeps a position in it.
type idleBlobs struct {
	mu       sync.Mutex
	blobs    map[spot][]openBlob
	count    int
	removals uint64 // how often files were removed
}

// spot is where a record stands. There is never another record at the same one.
type spot struct {
	pack   uint64
	offset int64
}

// openBlob is a record and the file of the extent that was read last.
type openBlob struct {
	rec      *pack.Record
	file     disk.File
	blob     uint64
	seek     int64  // where the kernel's position in the file is
	removals uint64 // when it was opened, or found still to be there
}

const maxIdleBlobs = 256

// now returns the number of removals so far, to be asked before a file is opened.
func (i *idleBlobs) now() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.removals
}

// take gives an open blob to the caller, if there is one.
func (i *idleBlobs) take(at spot, to *openBlob) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	idle := i.blobs[at]
	if len(idle) == 0 {
		return false
	}
	last := len(idle) - 1
	*to = idle[last]
	to.removals = i.removals
	i.set(at, idle[:last])
	i.count--
	return true
}

// record returns the record at a spot, if a blob of it is here.
func (i *idleBlobs) record(at spot) *pack.Record {
	i.mu.Lock()
	defer i.mu.Unlock()
	if idle := i.blobs[at]; len(idle) > 0 {
		return idle[0].rec
	}
	return nil
}

// keep takes a blob back that nobody reads now. It refuses one that may have been
// removed meanwhile: that one would take up space as long as it is open.
func (i *idleBlobs) keep(at spot, b openBlob) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if b.removals != i.removals {
		return false
	}
	if i.blobs == nil {
		i.blobs = make(map[spot][]openBlob)
	}
	for other, idle := range i.blobs {
		if i.count < maxIdleBlobs {
			break
		}
		i.close(other, idle[:1])
	}
	i.blobs[at] = append(i.blobs[at], b)
	i.count++
	return true
}

// removed closes those of a file that is no more.
func (i *idleBlobs) removed(blob uint64) { i.drop(func(b openBlob) bool { return b.blob == blob }) }

// clear closes all of them.
func (i *idleBlobs) clear() { i.drop(func(openBlob) bool { return true }) }

func (i *idleBlobs) drop(which func(openBlob) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.removals++
	for at, idle := range i.blobs {
		if slices.ContainsFunc(idle, which) { // of a record that is gone: none of them is needed
			i.close(at, idle)
		}
	}
}

// close closes the first ones at a spot.
func (i *idleBlobs) close(at spot, which []openBlob) {
	for _, b := range which {
		b.file.Close() //nolint:errcheck // opened for reading
	}
	i.count -= len(which)
	i.set(at, slices.Clone(i.blobs[at][len(which):]))
}

func (i *idleBlobs) set(at spot, idle []openBlob) {
	if len(idle) == 0 {
		delete(i.blobs, at)
	} else {
		i.blobs[at] = idle
	}
}
