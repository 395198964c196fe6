package shard_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// random returns a source whose seed is printed if the test fails.
func random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("PENSTOCK_TEST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		must(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("PENSTOCK_TEST_SEED=%d repeats it", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

// item is an entry with its content.
type item struct {
	name    string
	kind    byte
	size    int64
	sparse  bool
	content string
}

func (i item) String() string {
	return fmt.Sprintf("%.80q type %q size %d sparse %v content of %d bytes", i.name, i.kind, i.size, i.sparse, len(i.content))
}

// scan returns what Scan makes of an archive.
func scan(data []byte) ([]item, error) {
	var all []item
	for e, err := range shard.Scan(bytes.NewReader(data)) {
		if err != nil {
			return all, err
		}
		i := item{name: e.Name, kind: e.Type, size: e.Size, sparse: e.Sparse}
		if end := e.Offset + e.Size; end <= int64(len(data)) && end >= e.Offset {
			i.content = string(data[e.Offset:end])
		}
		all = append(all, i)
	}
	return all, nil
}

// reference returns what archive/tar makes of it, in our words.
func reference(data []byte) ([]item, error) {
	var all []item
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return all, nil
		} else if err != nil {
			return all, err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		i := item{name: h.Name, kind: h.Typeflag, size: h.Size, sparse: h.Typeflag == tar.TypeGNUSparse}
		switch h.Typeflag {
		case tar.TypeLink, tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeDir, tar.TypeFifo:
			i.size = 0
		}
		for key := range h.PAXRecords {
			i.sparse = i.sparse || strings.HasPrefix(key, "GNU.sparse.")
		}
		if !i.sparse {
			b, err := io.ReadAll(r)
			i.content = string(b)
			if err != nil {
				i.content = "" // as scan does with what is not all there
				return append(all, i), err
			}
		}
		all = append(all, i)
	}
}

// compare fails unless Scan and archive/tar agree about an archive: both accept it
// and see the same, or both refuse it at the same place. Scan may refuse what tar
// programs read differently and names over its limit, and passes over sparse files
// that archive/tar looks into.
func compare(t *testing.T, data []byte) {
	t.Helper()
	ours, err := scan(data)
	theirs, theirErr := reference(data)
	if err != nil && !object.Is(err, object.Invalid) {
		t.Fatalf("an error of the wrong kind: %v", err)
	}
	stricter := err != nil && (strings.Contains(err.Error(), "differently") || strings.Contains(err.Error(), "is longer than"))
	for i := range min(len(ours), len(theirs)) {
		a, b := ours[i], theirs[i]
		if a.sparse && b.sparse {
			continue
		}
		if a != b {
			t.Fatalf("entry %d\n is        %v\n should be %v", i, a, b)
		}
	}
	sparse := false
	for _, i := range ours {
		sparse = sparse || i.sparse
	}
	switch {
	case stricter && len(ours) > len(theirs):
		t.Fatalf("%d entries before %v, archive/tar has %d and %v", len(ours), err, len(theirs), theirErr)
	case stricter, sparse && theirErr != nil:
	case err != nil && strings.Contains(err.Error(), "a size of") && theirErr != nil && len(ours) <= len(theirs):
		// no stream is as long as that: said at once
	case len(ours) != len(theirs):
		t.Fatalf("%d entries and %v, should be %d and %v", len(ours), err, len(theirs), theirErr)
	case (err == nil) != (theirErr == nil):
		t.Fatalf("error %v, should be %v", err, theirErr)
	}
}

type failing struct {
	r   io.Reader
	err error
}

func (f failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if errors.Is(err, io.EOF) {
		err = f.err
	}
	return n, err
}

// member is a file to be written by archive.
type member struct {
	name    string
	content string
	header  tar.Header // its other fields
}

func archive(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := m.header
		h.Name, h.Mode = m.name, 0o644
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(m.content))
		}
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, m.content)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// raw returns one header block with the right checksum.
func raw(kind byte, name, size, magic string) []byte {
	b := make([]byte, 512)
	copy(b, name)
	copy(b[100:], "0000644\x000000000\x000000000\x00")
	copy(b[124:136], size)
	copy(b[136:], "00000000000\x00")
	b[156] = kind
	copy(b[257:], magic)
	return sum(b)
}

func sum(b []byte) []byte {
	copy(b[148:], "        ")
	n := 0
	for _, c := range b {
		n += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", n))
	return b
}

func padded(s string) []byte { return append([]byte(s), make([]byte, -len(s)&511)...) }

func record(key, value string) string {
	n := len(key) + len(value) + 3
	for n != len(strconv.Itoa(n))+len(key)+len(value)+3 {
		n = len(strconv.Itoa(n)) + len(key) + len(value) + 3
	}
	return fmt.Sprintf("%d %s=%s\n", n, key, value)
}

const (
	ustar = "ustar\x0000"
	gnu   = "ustar  \x00"
)

// pax returns an extended header with its records.
func pax(kind byte, records string) []byte {
	return append(raw(kind, "pax", fmt.Sprintf("%011o", len(records)), ustar), padded(records)...)
}

func join(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }
