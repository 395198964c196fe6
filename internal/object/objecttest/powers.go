package objecttest

import (
	"bytes"
	"io"

	"penstock.dev/penstock/internal/object"
)

func testCopy(s *suite) {
	c, ok := s.Holder.(Copier)
	if !ok {
		return
	}
	src, dst := name("original"), object.Name{Bucket: Other, Key: "copy"}
	_, err := c.Copy(s.Context(), dst, src, object.PutOptions{})
	s.wantKind("copy of nothing", err, object.NotFound)
	for _, size := range sizes {
		data := content(uint64(size), size)
		meta := object.PutOptions{ContentType: "image/png", Metadata: map[string]string{"a": "b"}}
		from := s.put(src, data, meta)
		to, err := c.Copy(s.Context(), dst, src, object.PutOptions{})
		if err != nil {
			s.Fatalf("copy of %d bytes: %v", size, err)
		}
		s.same("copy and stat", to, s.holds(dst, data))
		s.same("copy and original", withIdentity(to, from), from)

		for _, other := range []object.PutOptions{{ContentType: "text/plain"}, {Metadata: map[string]string{"c": "d"}}} {
			again, err := c.Copy(s.Context(), dst, src, other)
			if err != nil {
				s.Fatalf("copy with other metadata: %v", err)
			}
			if other.ContentType == "" {
				other.ContentType = meta.ContentType
			}
			if other.Metadata == nil {
				other.Metadata = meta.Metadata
			}
			s.same("copy with other metadata", s.holds(dst, data), withMeta(again, other))
		}
		_, err = c.Copy(s.Context(), dst, src, object.PutOptions{Condition: object.Condition{IfNoneMatch: "*"}})
		s.wantKind("copy over an object, If-None-Match: *", err, object.Exists)
		_, err = c.Copy(s.Context(), dst, src, object.PutOptions{Condition: object.Condition{IfMatch: to.ETag}})
		s.wantKind("copy If-Match with an old ETag", err, object.Stale)

		s.put(src, []byte("other"), object.PutOptions{}) // neither the end of one...
		s.delete(src)
		s.holds(dst, data)
		s.put(src, data, meta) // ...nor that of the other touches its twin
		if _, err := c.Copy(s.Context(), dst, src, object.PutOptions{}); err != nil {
			s.Fatal(err)
		}
		s.delete(dst)
		s.holds(src, data)

		self, err := c.Copy(s.Context(), src, src, object.PutOptions{})
		if err != nil {
			s.Fatalf("copy onto itself: %v", err)
		}
		s.same("copy onto itself", self, s.holds(src, data))
	}
	_, err = c.Copy(s.Context(), name(""), src, object.PutOptions{})
	s.wantKind("copy to an impossible name", err, object.Invalid)
	_, err = c.Copy(s.Context(), dst, name("\xff"), object.PutOptions{})
	s.wantKind("copy from an impossible name", err, object.Invalid)
}

// withIdentity returns info as if it had been written when other was.
func withIdentity(info, other object.Info) object.Info {
	info.Name, info.Version, info.ETag, info.Modified = other.Name, other.Version, other.ETag, other.Modified
	return info
}

func testVerified(s *suite) {
	v, ok := s.Holder.(Verifier)
	if !ok {
		return
	}
	_, err := v.OpenVerified(s.Context(), name("nothing"), object.Range{})
	s.wantKind("verified open of nothing", err, object.NotFound)
	for _, size := range sizes {
		data := content(uint64(size), size)
		s.put(name("checked"), data, object.PutOptions{})
		for _, r := range []object.Range{{}, {Offset: 1}, {Offset: 64<<10 - 1, Length: 3}, {Offset: -1}, {Offset: int64(size) / 2, Length: 100 << 10}} {
			offset, length, err := r.Resolve(int64(size))
			if err != nil {
				continue
			}
			reader, err := v.OpenVerified(s.Context(), name("checked"), r)
			if err != nil {
				s.Fatalf("verified open of %+v in %d bytes: %v", r, size, err)
			}
			got, err := io.ReadAll(reader)
			reader.Close()
			if err != nil || !bytes.Equal(got, data[offset:offset+length]) {
				s.Errorf("verified read of %+v in %d bytes gives %d bytes, %v", r, size, len(got), err)
			}
		}
	}
}

func testEmpty(s *suite) {
	e, ok := s.Holder.(Emptier)
	if !ok {
		return
	}
	want := func(bucket string, want bool) {
		s.Helper()
		if got, err := e.Empty(s.Context(), bucket); err != nil || got != want {
			s.Errorf("%s is empty: %v, %v; want %v", bucket, got, err, want)
		}
	}
	want(Bucket, true)
	s.put(name("x"), nil, object.PutOptions{})
	want(Bucket, false)
	want(Other, true)
	s.put(name("x"), content(1, 2<<20), object.PutOptions{})
	s.delete(name("x"))
	want(Bucket, true)
}
