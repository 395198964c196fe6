package objecttest

import (
	"hash/crc32"
	"slices"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// Lacks says what a holder cannot do, by its nature: the suite then leaves out what
// depends on it, and checks that what is impossible is refused.
type Lacks struct {
	Sums       bool // Info.CRC32 is zero: nobody has computed it
	Versions   bool // Info.Version is zero; ETags still tell states apart
	Metadata   bool // ContentType and Metadata of a Put are not kept
	Buckets    bool // the bucket of a name means nothing
	Conditions bool // writes know no conditions

	// Keys reports whether a valid key can be held; nil: all of them can. To Put
	// another is Invalid, and it is NotFound for everything else.
	Keys func(key string) bool

	// Nested says that a key and one below it (a, a/b) cannot both be held.
	Nested bool
}

// possible returns those keys that can be held together.
func (s *suite) possible(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(key string) bool {
		return !s.holdable(key) || (s.opts.Lacks.Nested && slices.ContainsFunc(all, func(other string) bool {
			return s.holdable(other) && strings.HasPrefix(other, key+"/")
		}))
	})
}

func (s *suite) holdable(key string) bool {
	return s.opts.Lacks.Keys == nil || s.opts.Lacks.Keys(key)
}

// fits reports whether a key can be held beside others.
func (s *suite) fits(key string, others []string) bool {
	return s.holdable(key) && (!s.opts.Lacks.Nested || !slices.ContainsFunc(others, func(other string) bool {
		return strings.HasPrefix(other, key+"/") || strings.HasPrefix(key, other+"/")
	}))
}

// sum is what Info.CRC32 must be.
func (s *suite) sum(data []byte) uint32 {
	if s.opts.Lacks.Sums {
		return 0
	}
	return crc32.ChecksumIEEE(data)
}

// follows reports whether a state can come after another.
func (s *suite) follows(info, last object.Info) bool {
	if s.opts.Lacks.Versions {
		return info.Version == object.Version{}
	}
	return info.Version.After(last.Version)
}

// alike returns info as if it had been written when other was, and by somebody who
// lacks nothing.
func (s *suite) alike(info, other object.Info) object.Info {
	info = withIdentity(info, other)
	if s.opts.Lacks.Sums {
		info.CRC32 = other.CRC32
	}
	if s.opts.Lacks.Metadata {
		info.ContentType, info.Metadata = other.ContentType, other.Metadata
	}
	return info
}

// testImpossibleNames shows that keys which cannot be held are refused, and leave
// nothing behind.
func testImpossibleNames(s *suite) {
	for _, key := range AwkwardKeys {
		if s.holdable(key) {
			continue
		}
		_, err := s.Put(s.Context(), name(key), strings.NewReader("x"), object.PutOptions{})
		s.wantKind("put of an impossible key", err, object.Invalid)
		s.wantKind("delete of an impossible key", s.Delete(s.Context(), name(key), object.Condition{}), object.NotFound)
		s.missing(name(key))
	}
	if entries := s.list(Bucket, object.ListOptions{}); len(entries) != 0 {
		s.Errorf("refused keys are listed: %v", entries)
	}
}
