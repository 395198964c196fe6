// Package wire turns what batches ask for, answer and bring into bytes and back:
// references, segments of items, streams of objects. docs/internals/wire.md draws
// the bytes; testdata/vectors/wire holds examples.
//
// It knows nothing of HTTP, nodes or disks. A client writes references with
// AppendRefs and reads the answer with a BatchReader; a node reads them with
// ParseRefs or ParseRefsJSON and writes the answer with a Segment. A client writes
// objects with AppendObject, a node reads them with an ObjectsReader.
//
// Nothing here trusts what it reads: a length is believed when its bytes are
// there. What a client sent wrongly is object.Invalid and says where. An answer
// that broke off is Unavailable, one with wrong bytes Corrupt.
//
// Functions may be called concurrently; a Segment and the readers belong to one
// goroutine at a time.
package wire

import (
	"math"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
)

// The content types of the three formats.
const (
	RefsType    = "application/vnd.penstock.refs"
	BatchType   = "application/vnd.penstock.batch"
	ObjectsType = "application/vnd.penstock.objects"
)

// MaxRefs is the largest number of references in one request.
const MaxRefs = 65536

const (
	refsMagic    = "pstkref1"
	batchMagic   = "pstkbat1"
	batchEnd     = "\x00\x00\x00\x00pend"
	objectsMagic = "pstkput1"
	objectsEnd   = "pstkpend"

	maxString = math.MaxUint16 // what two bytes of length can say
)

// invalid says that the other side sent what makes no sense.
func invalid(format string, args ...any) error {
	return object.Errorf(object.Invalid, format, args...)
}

// checkRef refuses what no reference may hold, whatever form it came in. Its
// bucket is not looked at: most references share one, which is checked once.
func checkRef(r *object.Ref) error {
	if err := object.ValidateKey(r.Name.Key); err != nil {
		return err
	}
	switch {
	case len(r.Member) > maxString:
		return invalid("member name of %d bytes is longer than %d", len(r.Member), maxString)
	case r.Member != "" && !utf8.ValidString(r.Member):
		return invalid("member name %q is not UTF-8", r.Member)
	case r.Of != (object.Version{}):
		return invalid("a version that is known already cannot be sent")
	case !r.Checked && r.CRC32 != 0:
		return invalid("the checksum %08x is not meant to be checked", r.CRC32)
	case r.Range.Length < 0:
		return invalid("length %d is negative", r.Range.Length)
	}
	return nil
}
