// Package object holds the nouns of Penstock: what an object is called, what is
// known about it, how a piece of it is named, what can go wrong with it, and the
// small interfaces that everything which holds objects shares.
//
// It does no I/O and keeps no state. Store, cache, source, node and client all
// speak these types; objecttest is the suite that all of them must pass.
package object

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxKey is the largest length of a key in bytes; what lies beside a bucket may have
// one as long as MaxStoredKey, to say which key it belongs to, and how.
const (
	MaxKey       = 1024
	MaxStoredKey = MaxKey + 64
)

// Name says which object is meant: a key in a bucket. Keys are flat; a slash in
// one means nothing to the store. A Name is never used as a path on a disk.
type Name struct {
	Bucket string
	Key    string

	// ID says which version of the object is meant, where several are kept: the
	// Version it was written under. Zero means the newest, NullID the one that was
	// written without an ID.
	ID Version
}

// NullID is the ID of what was written while no versions were kept. No write has
// this Version.
var NullID = Version{Counter: 1}

// Beside names the bucket that holds what belongs to a bucket and is none of its
// objects, such as unfinished uploads. No user can name it.
func Beside(bucket, what string) string { return bucket + besideMark + what }

const besideMark = "~"

// BesideOf returns the bucket that something lies beside, or the bucket itself.
func BesideOf(bucket string) string {
	bucket, _, _ = strings.Cut(bucket, besideMark)
	return bucket
}

// String returns the name as users write it: bucket/key.
func (n Name) String() string { return n.Bucket + "/" + n.Key }

// Validate reports as Invalid what cannot name an object.
func (n Name) Validate() error {
	if err := ValidateBucket(n.Bucket); err != nil {
		return err
	}
	return ValidateKey(n.Key)
}

// ValidateStored is Validate for those who store: what lies beside a bucket has a
// name, too.
func (n Name) ValidateStored() error {
	bucket, _, beside := strings.Cut(n.Bucket, besideMark)
	if !beside {
		return n.Validate()
	}
	if err := ValidateBucket(bucket); err != nil {
		return err
	}
	if len(n.Key) > MaxStoredKey {
		return Errorf(Invalid, "key of %d bytes is longer than %d", len(n.Key), MaxStoredKey)
	}
	return nil
}

// ValidateKey accepts any UTF-8 of 1 to MaxKey bytes.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return Errorf(Invalid, "key is empty")
	case len(key) > MaxKey:
		return Errorf(Invalid, "key of %d bytes is longer than %d", len(key), MaxKey)
	case !utf8.ValidString(key):
		return Errorf(Invalid, "key %q is not UTF-8", key)
	}
	return nil
}

// ValidateBucket accepts the names S3 accepts: 3 to 63 lower-case letters,
// digits, dots and dashes, beginning and ending with a letter or digit, no two
// dots in a row, and not an IPv4 address. Such a name is safe in URLs, host
// names and tar paths.
func ValidateBucket(bucket string) error {
	if len(bucket) < 3 || len(bucket) > 63 {
		return Errorf(Invalid, "bucket name %q must have 3 to 63 characters", bucket)
	}
	digitsAndDots := true
	for i := 0; i < len(bucket); i++ {
		c := bucket[i]
		switch {
		case c >= 'a' && c <= 'z':
			digitsAndDots = false
		case c >= '0' && c <= '9':
		case c == '-' || c == '.':
			if i == 0 || i == len(bucket)-1 || (c == '.' && bucket[i-1] == '.') {
				return Errorf(Invalid, "bucket name %q has a dot or dash in a wrong place", bucket)
			}
			digitsAndDots = digitsAndDots && c == '.'
		default:
			return Errorf(Invalid, "bucket name %q may hold only a-z, 0-9, dot and dash", bucket)
		}
	}
	if digitsAndDots && strings.Count(bucket, ".") == 3 {
		return Errorf(Invalid, "bucket name %q looks like an IP address", bucket)
	}
	return nil
}

// ParseName splits "bucket/key" at the first slash and validates both.
func ParseName(s string) (Name, error) {
	bucket, key, ok := strings.Cut(s, "/")
	if !ok {
		return Name{}, Errorf(Invalid, "%q is not BUCKET/KEY", s)
	}
	n := Name{Bucket: bucket, Key: key}
	return n, n.Validate()
}

// Version orders the writes of an object: by the map the writing node believed
// in, then by a counter that only grows. The zero Version is before all others.
type Version struct {
	Map     uint32
	Counter uint64
}

// Compare returns -1, 0 or 1 as v is before, equal to or after w.
func (v Version) Compare(w Version) int {
	switch {
	case v.Map != w.Map:
		if v.Map < w.Map {
			return -1
		}
		return 1
	case v.Counter < w.Counter:
		return -1
	case v.Counter > w.Counter:
		return 1
	}
	return 0
}

// After reports whether v is newer than w.
func (v Version) After(w Version) bool { return v.Compare(w) > 0 }

// String returns "map.counter" in decimal.
func (v Version) String() string {
	return strconv.FormatUint(uint64(v.Map), 10) + "." + strconv.FormatUint(v.Counter, 10)
}

// Info is what is known about a stored object without reading it.
type Info struct {
	Name        Name
	Size        int64
	Version     Version
	ETag        string // without quotes; changes whenever the content does
	Modified    time.Time
	CRC32       uint32            // IEEE, of the whole content
	ContentType string            // empty: none was given
	Metadata    map[string]string // see PutOptions; not to be changed

	// Marker says that this is no object, but the mark of its deletion in a bucket
	// that keeps versions. Only a listing of versions shows it.
	Marker bool
	// Newest says, in a listing of versions, that this is what the key alone means.
	Newest bool
	// Parts are the sizes of the parts the object was put together from, if it was.
	Parts []int64
}

// NativeETag is the ETag of an object that was not written through S3. It holds
// a dash, so that no client takes it for an MD5.
func NativeETag(v Version, crc uint32) string {
	b := strconv.AppendUint(make([]byte, 0, 33), uint64(v.Map), 16)
	b = appendHex8(b, v.Counter)
	b = append(b, '-')
	return string(appendHex8(b, uint64(crc)))
}

// appendHex8 writes at least eight hexadecimal digits.
func appendHex8(b []byte, n uint64) []byte {
	for digits := uint64(1) << 28; n < digits && digits > 1; digits >>= 4 {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, n, 16)
}

// Range is a piece of an object. The zero Range is the whole of it. A Length of
// zero reaches to the end; a negative Offset counts from the end.
type Range struct {
	Offset int64
	Length int64
}

// Ref names what a batch asks for: an object, a file inside an object that is an
// archive, or a range of either.
type Ref struct {
	Name   Name
	Member string // path of a file inside a tar; empty: the object itself
	Range  Range

	// CRC32 is what the bytes must have, if Checked: all of those that are asked for.
	// A range with a Length must then be there as a whole. Other bytes are Stale if
	// they are what was stored, else Corrupt. Verifying by it is cheaper than by the
	// store's own checksums, for a small piece of a large object.
	CRC32   uint32
	Checked bool

	// Of is the version that is asked for, zero for any; another one is Stale. It is
	// for a store in the same process, and Invalid over the network.
	Of Version
}

// Check reports as Stale bytes of the given number and checksum that the reference
// does not ask for.
func (r Ref) Check(length int64, crc uint32) error {
	switch {
	case !r.Checked:
	case r.Range.Length > 0 && r.Range.Length != length:
		return Errorf(Stale, "%s is not what was asked for: it has %d bytes at %d, not %d", r, length, r.Range.Offset, r.Range.Length)
	case crc != r.CRC32:
		return Errorf(Stale, "%s is not what was asked for: the %d bytes have checksum %08x, not %08x", r, length, crc, r.CRC32)
	}
	return nil
}

// String returns what is asked for, without the range.
func (r Ref) String() string {
	if r.Member == "" {
		return r.Name.String()
	}
	return r.Name.String() + "?member=" + r.Member
}

// RangeError says that a Range lies outside an object of the given Size.
type RangeError struct {
	Range Range
	Size  int64
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("range of %d bytes at %d lies outside an object of %d bytes", e.Range.Length, e.Range.Offset, e.Size)
}

// Resolve returns the first byte and the number of bytes r means in an object of
// the given size. What reaches beyond the end is cut, as HTTP does; what begins
// beyond it is a *RangeError of kind Invalid. The whole of an empty object is fine.
func (r Range) Resolve(size int64) (offset, length int64, err error) {
	if r == (Range{}) {
		return 0, size, nil
	}
	offset = r.Offset
	if offset < 0 {
		offset = max(0, size+offset)
	}
	if r.Length < 0 || offset >= size {
		return 0, 0, &Error{Kind: Invalid, Err: &RangeError{Range: r, Size: size}}
	}
	length = size - offset
	if r.Length > 0 {
		length = min(length, r.Length)
	}
	return offset, length, nil
}
