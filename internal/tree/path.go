package tree

import (
	"strings"

	"penstock.dev/penstock/internal/object"
)

// temporaries is the directory, beside the files that a Get writes, where they grow
// until they are whole.
const temporaries = ".penstock-get"

// checkPath reports as Invalid a key that does not mean a file below a directory.
// What it accepts is used element by element, and never resolved.
func checkPath(path string) error {
	if strings.ContainsRune(path, 0) {
		return object.Errorf(object.Invalid, "the key holds a NUL and cannot be a path")
	}
	if path == temporaries || strings.HasPrefix(path, temporaries+"/") {
		return object.Errorf(object.Invalid, "%s is where files grow until they are whole", temporaries)
	}
	for element := range strings.SplitSeq(path, "/") {
		switch element {
		case "":
			return object.Errorf(object.Invalid, "the key has an empty element and cannot be a path")
		case ".", "..":
			return object.Errorf(object.Invalid, "the key has the element %q and cannot be a path", element)
		}
	}
	return nil
}

// ancestry finds keys, given in order, that would need a file to be a directory:
// "a" and "a/b". Keys that begin with another one follow it without a gap, so it is
// enough to remember those that the last key began with.
type ancestry struct {
	keys []string // each is the beginning of the next one
}

// file returns the key before this one whose file stands where this key needs a
// directory, if there is one.
func (a *ancestry) file(key string) (above string, ok bool) {
	for len(a.keys) > 0 && !strings.HasPrefix(key, a.keys[len(a.keys)-1]) {
		a.keys = a.keys[:len(a.keys)-1]
	}
	for _, k := range a.keys {
		if len(key) > len(k) && key[len(k)] == '/' {
			return k, true
		}
	}
	a.keys = append(a.keys, key)
	return "", false
}
