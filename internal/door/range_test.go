package door_test

import (
	"errors"
	"testing"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/object"
)

func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-1", "bytes=-5", "bytes=5-", "bytes=0-0,5-", "bytes=-0", "bytes=9223372036854775807-9223372036854775807", "bytes=-9223372036854775808", "x=1", "bytes=,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r, part, err := door.ParseRange(header)
		if err != nil {
			if !object.Is(err, object.Invalid) || part {
				t.Fatalf("%q: %v, %v", header, part, err)
			}
			return
		}
		if !part && r != (object.Range{}) {
			t.Fatalf("%q is the whole, but %+v", header, r)
		}
		for _, size := range []int64{0, 1, 10, 1 << 40, 1<<63 - 1} {
			offset, length, err := r.Resolve(size)
			var outside *object.RangeError
			switch {
			case errors.As(err, &outside):
			case err != nil:
				t.Fatalf("%q of %d bytes: %v", header, size, err)
			case offset < 0 || length < 0 || offset+length > size || (part && length == 0):
				t.Fatalf("%q of %d bytes is %d bytes at %d", header, size, length, offset)
			}
		}
	})
}
