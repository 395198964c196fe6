package dataset

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/localfile"
)

// Origin is where the samples of a new version come from. It has one user.
type Origin interface {
	String() string // as the user would write it

	open(r *run) error
	close()

	// where tells the origin from others. Files with the same path in origins that
	// are the same, neither of which has changed, have the same content.
	where() string

	// list returns all files, and names those that cannot be used.
	list(ctx context.Context, r *run) ([]*folder, error)

	// local returns a path as the user would write it.
	local(path string) string

	// read fills the wants, and says in each what went wrong with it.
	read(ctx context.Context, wants []want)

	// tag returns what changes when the content of a file does, if there is such a
	// thing.
	tag(ctx context.Context, path string) (string, error)

	// stream gives the content of a file that is too large for memory, or has any
	// length.
	stream(ctx context.Context, path string) (io.ReadCloser, error)
}

// want is a file that is to be read. Behind the bytes there is room for one more.
type want struct {
	path string
	dst  []byte // as long as the file was when it was listed
	crc  uint32
	err  error
}

var (
	errGrown   = errors.New("it grew while it was read")
	errShorter = errors.New("it became shorter while it was read")
	errChanged = errors.New("it changed while it was read")
)

// read reads each file with three system calls.
func (t *tree) read(ctx context.Context, wants []want) {
	root := int(t.root.Fd())
	for i := range wants {
		w := &wants[i]
		if w.err = ctx.Err(); w.err != nil {
			continue
		}
		if w.err = readFile(root, w.path, w.dst, t.follow); w.err == nil {
			w.crc = crc32.ChecksumIEEE(w.dst)
		}
	}
}

func readFile(root int, path string, dst []byte, follow bool) error {
	fd, err := openFile(root, path, follow)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// One byte more shows that the file has grown. That it has ended is seen from the
	// number: the kernel gives less than is asked for only there, or nothing.
	for n := 0; n < len(dst) || len(dst) == 0; {
		var got int
		err := localfile.Uninterrupted(func() (err error) { got, err = unix.Read(fd, dst[n:len(dst)+1]); return err })
		switch n += max(got, 0); {
		case err != nil:
			return err
		case n > len(dst):
			return errGrown
		case got == 0 && n < len(dst):
			return errShorter
		case got == 0:
			return nil
		}
	}
	return nil
}

// openFile does not wait for a pipe that has taken a file's place.
func openFile(root int, path string, follow bool) (int, error) {
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW
	if follow {
		flags &^= unix.O_NOFOLLOW
	}
	return openAt(root, path, flags)
}

func (t *tree) tag(context.Context, string) (string, error) { return "", nil }

func (t *tree) stream(_ context.Context, path string) (io.ReadCloser, error) {
	fd, err := openFile(int(t.root.Fd()), path, t.follow)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), t.local(path)), nil
}

func formatID(numbers ...uint64) string {
	text := ""
	for _, n := range numbers {
		text += "-" + strconv.FormatUint(n, 36)
	}
	return text[1:]
}
