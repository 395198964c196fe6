package wire

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
)

// smallestJSONRef is {"key":"k"} and a comma.
const smallestJSONRef = 12

// ParseRefsJSON reads the same request as ParseRefs from JSON:
//
//	{"bucket": "b", "refs": [{"key": "k", "member": "m", "offset": 0, "length": 10, "crc32": "89abcdef"}, ...]}
//
// A reference may have a "bucket" of its own. Fields may come in any order. What
// a lenient reader would guess at is refused: unknown or repeated fields, names
// in other case, null, numbers that are no integers, text that is not UTF-8, half
// a surrogate pair, anything behind the end. It does not keep data; the strings
// share one copy of it.
//
// encoding/json takes five times as long (see BenchmarkParseRefsJSON) and guesses;
// FuzzRefsJSON holds this parser to it.
func ParseRefsJSON(data []byte) ([]object.Ref, error) {
	s := scanner{text: string(data)}
	if !utf8.ValidString(s.text) {
		return nil, invalid("the request is not UTF-8")
	}
	var refs []object.Ref
	var bucket string
	var seen fields
	err := s.object(func(name string) (err error) {
		switch {
		case name == "bucket" && seen.first(hasBucket):
			bucket, err = s.bucket()
		case name == "refs" && seen.first(hasRefs):
			refs, err = s.refs()
		default:
			err = s.fail("field %q is unknown or comes twice", name)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case s.peek() != 0 || s.at < len(s.text):
		return nil, s.fail("something follows the request")
	case seen&hasRefs == 0:
		return nil, invalid(`the request has no "refs"`)
	}
	for i := range refs {
		if refs[i].Name.Bucket == "" {
			if bucket == "" {
				return nil, invalid("reference %d: no bucket is given", i)
			}
			refs[i].Name.Bucket = bucket
		}
	}
	return refs, nil
}

// fields are those of an object that were there already.
type fields uint8

const (
	hasKey fields = 1 << (iota + 4) // behind the flags of the binary form, which serve here as well
	hasOffset
	hasLength
	hasRefs
)

// first notes a field, and reports whether it was not there before.
func (f *fields) first(field fields) bool {
	first := *f&field == 0
	*f |= field
	return first
}

// refs takes the array of references.
func (s *scanner) refs() ([]object.Ref, error) {
	if !s.take('[') {
		return nil, s.fail("a [ is missing")
	}
	rest := s.text[s.at:]
	// Braces in keys make this too large, but never by more than the text allows.
	refs := make([]object.Ref, 0, min(strings.Count(rest, "{"), len(rest)/smallestJSONRef+1, MaxRefs))
	if s.take(']') {
		return refs, nil
	}
	for checked := ""; ; {
		if len(refs) == MaxRefs {
			return nil, s.fail("there are more than %d references", MaxRefs)
		}
		refs = append(refs, object.Ref{})
		r := &refs[len(refs)-1]
		err := s.ref(r)
		if err == nil {
			err = checkRef(r)
		}
		if err == nil && r.Name.Bucket != checked && r.Name.Bucket != "" {
			err = object.ValidateBucket(r.Name.Bucket)
			checked = r.Name.Bucket
		}
		if err != nil {
			return nil, invalid("reference %d: %w", len(refs)-1, err)
		}
		switch {
		case s.take(','):
		case s.take(']'):
			return refs, nil
		default:
			return nil, s.fail("a comma or ] is missing")
		}
	}
}

func (s *scanner) ref(r *object.Ref) error {
	var seen fields
	err := s.object(func(name string) (err error) {
		switch {
		case name == "key" && seen.first(hasKey):
			r.Name.Key, err = s.name()
		case name == "member" && seen.first(hasMember):
			r.Member, err = s.name()
		case name == "offset" && seen.first(hasOffset):
			r.Range.Offset, err = s.integer()
		case name == "length" && seen.first(hasLength):
			r.Range.Length, err = s.integer()
		case name == "bucket" && seen.first(hasBucket):
			r.Name.Bucket, err = s.name()
		case name == "crc32" && seen.first(hasCRC32):
			r.Checked = true
			r.CRC32, err = s.crc32()
		default:
			err = s.fail("field %q is unknown or comes twice", name)
		}
		return err
	})
	if err == nil && seen&hasKey == 0 {
		return s.fail(`"key" is missing`)
	}
	return err
}

// crc32 takes a checksum, written as in the headers of an object.
func (s *scanner) crc32() (uint32, error) {
	text, err := s.string()
	if err != nil {
		return 0, err
	}
	crc, err := strconv.ParseUint(text, 16, 32)
	if err != nil || len(text) != 8 {
		return 0, s.fail("a checksum must be 8 hexadecimal digits, not %.40q", text)
	}
	return uint32(crc), nil
}

// bucket takes the name of the bucket that references without one mean.
func (s *scanner) bucket() (string, error) {
	bucket, err := s.name()
	if err != nil {
		return "", err
	}
	return bucket, object.ValidateBucket(bucket)
}

// name takes a string that is given in order to name something.
func (s *scanner) name() (string, error) {
	name, err := s.string()
	if err == nil && name == "" {
		err = s.fail("a name is empty")
	}
	return name, err
}
