package disk

import (
	"io"
	"io/fs"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Prompt is what a File may have beside: it reads what the kernel holds in memory,
// and never waits for the drive.
type Prompt interface {
	// ReadNow fills the pieces with consecutive bytes of the file and reports true,
	// or reports false: then the pieces hold rubbish. There may be MaxPieces.
	ReadNow(pieces [][]byte, offset int64) bool
}

// MaxPieces is how many pieces of memory one read may fill.
const MaxPieces = 64

// ReadNow reads from a file that is Prompt; from others it reads nothing.
func ReadNow(f File, pieces [][]byte, offset int64) bool {
	p, ok := f.(Prompt)
	return ok && p.ReadNow(pieces, offset)
}

// ReadNow is one system call, made without telling the scheduler: it does not
// block, and telling costs a third as much as the call.
func (f *osFile) ReadNow(pieces [][]byte, offset int64) bool {
	if f.cannot.Load() || len(pieces) == 0 || len(pieces) > MaxPieces {
		return false
	}
	var few [6]unix.Iovec // mostly: clearing many costs as much as filling these
	vector := few[:]
	if len(pieces) > len(few) {
		vector = make([]unix.Iovec, MaxPieces)
	}
	var want uintptr
	used := 0
	for _, p := range pieces {
		if len(p) == 0 {
			continue
		}
		vector[used].Base = &p[0]
		vector[used].SetLen(len(p))
		want += uintptr(len(p))
		used++
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_PREADV2, f.fd, uintptr(unsafe.Pointer(&vector[0])), uintptr(used),
		uintptr(offset), 0, unix.RWF_NOWAIT)
	if errno == unix.EOPNOTSUPP || errno == unix.ENOSYS {
		f.cannot.Store(true)
	}
	return errno == 0 && n == want
}

// Gatherer is what a File may have beside: it writes pieces of memory one behind the
// other without their being put together first.
type Gatherer interface {
	WritePieces(pieces [][]byte, offset int64) error
}

// WritePieces writes pieces of memory one behind the other.
func WritePieces(f File, pieces [][]byte, offset int64) error {
	if len(pieces) > 1 {
		if g, ok := f.(Gatherer); ok {
			return g.WritePieces(pieces, offset)
		}
		pieces = [][]byte{slices.Concat(pieces...)}
	}
	for _, p := range pieces {
		if _, err := f.WriteAt(p, offset); err != nil {
			return err
		}
	}
	return nil
}

// maxVector is the most pieces that the kernel takes at once.
const maxVector = 1024

func (f *osFile) WritePieces(pieces [][]byte, offset int64) error {
	vector := make([]unix.Iovec, 0, min(len(pieces), maxVector))
	for len(pieces) > 0 {
		var want int
		vector = vector[:0]
		n := 0
		for ; n < len(pieces) && len(vector) < maxVector; n++ {
			if p := pieces[n]; len(p) > 0 {
				v := unix.Iovec{Base: &p[0]}
				v.SetLen(len(p))
				vector = append(vector, v)
				want += len(p)
			}
		}
		if err := f.writeVector(vector, want, offset); err != nil {
			return err
		}
		offset += int64(want)
		pieces = pieces[n:]
	}
	return nil
}

// writeVector writes all of the vector, which it uses up.
func (f *osFile) writeVector(vector []unix.Iovec, want int, offset int64) error {
	for want > 0 {
		wrote, _, errno := unix.Syscall6(unix.SYS_PWRITEV, f.fd, uintptr(unsafe.Pointer(&vector[0])), uintptr(len(vector)), uintptr(offset), 0, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return &fs.PathError{Op: "pwritev", Path: f.Name(), Err: errno}
		case wrote == 0:
			return &fs.PathError{Op: "pwritev", Path: f.Name(), Err: io.ErrShortWrite}
		}
		n := int(wrote)
		want -= n
		offset += int64(n)
		for n > 0 { // what was not written is gone on with
			v := &vector[0]
			if have := int(v.Len); n < have {
				v.Base = (*byte)(unsafe.Add(unsafe.Pointer(v.Base), n))
				v.SetLen(have - n)
				break
			}
			n -= int(v.Len)
			vector = vector[1:]
		}
	}
	return nil
}
