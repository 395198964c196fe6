package objecttest

import (
	"bytes"
	"context"
	"hash/crc32"
	"io"

	"penstock.dev/penstock/internal/object"
)

// testReaderSurvives overwrites and deletes an object under its readers.
func testReaderSurvives(s *suite) {
	for _, size := range []int{1, 4096, 600 << 10, 3<<20 + 1} {
		n := name("moving")
		data := content(uint64(size), size)
		s.put(n, data, object.PutOptions{})
		var readers []object.Reader
		for range 4 {
			r, err := s.Open(s.Context(), n, object.Range{})
			if err != nil {
				s.Fatalf("open: %v", err)
			}
			defer r.Close()
			readers = append(readers, r)
		}
		head := make([]byte, min(100, size))
		for _, r := range readers[:2] {
			if _, err := io.ReadFull(r, head); err != nil {
				s.Fatalf("read: %v", err)
			}
		}
		s.put(n, content(99, size), object.PutOptions{})
		s.survived(readers[0], data[len(head):], false)
		s.survived(readers[2], data, true)
		s.delete(n)
		s.put(name("other"), content(98, size), object.PutOptions{})
		s.survived(readers[1], data[len(head):], true)
		s.survived(readers[3], data, false)
	}
}

func (s *suite) survived(r object.Reader, want []byte, writeTo bool) {
	s.Helper()
	var buf bytes.Buffer
	var err error
	if writeTo {
		_, err = r.WriteTo(&buf)
	} else {
		_, err = io.Copy(&buf, struct{ io.Reader }{r})
	}
	if err != nil || !bytes.Equal(buf.Bytes(), want) {
		s.Errorf("a reader of an object that has changed gives %d bytes (%v), not the %d it was opened on", buf.Len(), err, len(want))
	}
}

// testFailingBody breaks the body at many places: nothing is stored, and what
// was there before stays.
func testFailingBody(s *suite) {
	for _, size := range sizes {
		broken := func() io.Reader {
			return io.MultiReader(bytes.NewReader(content(3, size)), failingReader{})
		}
		_, err := s.Put(s.Context(), name("never"), broken(), object.PutOptions{SizeHint: int64(size)})
		if err == nil {
			s.Errorf("a body that breaks after %d bytes was stored", size)
		}
		s.missing(name("never"))

		before := s.put(name("before"), content(4, size), object.PutOptions{})
		if _, err := s.Put(s.Context(), name("before"), broken(), object.PutOptions{}); err == nil {
			s.Errorf("a body that breaks after %d bytes was stored over another", size)
		}
		s.same("before and after", s.holds(name("before"), content(4, size)), before)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errBody }

// testCanceled ends the context before, and in the middle of the body.
func testCanceled(s *suite) {
	for _, size := range []int{0, 1000, 2 << 20} {
		ctx, cancel := context.WithCancel(s.Context())
		body := io.MultiReader(bytes.NewReader(content(5, size)), &cancelingReader{cancel: cancel}, bytes.NewReader(content(6, 1000)))
		_, err := s.Put(ctx, name("canceled"), body, object.PutOptions{})
		s.wantKind("put, canceled in the body", err, object.Canceled)
		s.missing(name("canceled"))

		_, err = s.Put(ctx, name("canceled"), bytes.NewReader(content(5, size)), object.PutOptions{})
		s.wantKind("put, canceled before", err, object.Canceled)
		s.missing(name("canceled"))
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.put(name("kept"), []byte("kept"), object.PutOptions{})
	s.wantKind("delete, canceled before", s.Delete(ctx, name("kept"), object.Condition{}), object.Canceled)
	s.holds(name("kept"), []byte("kept"))
}

// cancelingReader cancels when it is read, and is then at its end.
type cancelingReader struct{ cancel context.CancelFunc }

func (r *cancelingReader) Read([]byte) (int, error) {
	r.cancel()
	return 0, io.EOF
}

func testWrongChecksum(s *suite) {
	for _, size := range sizes {
		data := content(8, size)
		right := crc32.ChecksumIEEE(data)
		wrong := right ^ 1
		_, err := s.Put(s.Context(), name("summed"), bytes.NewReader(data), object.PutOptions{CRC32: &wrong})
		s.wantKind("put with a wrong checksum", err, object.Invalid)
		s.missing(name("summed"))
		s.put(name("summed"), data, object.PutOptions{CRC32: &right})
		_, err = s.Put(s.Context(), name("summed"), bytes.NewReader(data), object.PutOptions{CRC32: &wrong})
		s.wantKind("overwrite with a wrong checksum", err, object.Invalid)
		s.holds(name("summed"), data)
		s.delete(name("summed"))
	}
}
