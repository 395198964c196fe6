package fault_test

import (
	"io"
	"testing"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, fsys disk.FS, name, data string) disk.File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	write(t, f, 0, data)
	return f
}

func write(t *testing.T, f disk.File, offset int64, data string) {
	t.Helper()
	_, err := f.WriteAt([]byte(data), offset)
	must(t, err)
}

// read returns the whole of a file, and whether there is one.
func read(t *testing.T, fsys disk.FS, name string) (string, bool) {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); n < len(data) {
		t.Fatalf("%s: read %d of %d bytes: %v", name, n, size, err)
	} else if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return string(data), true
}
