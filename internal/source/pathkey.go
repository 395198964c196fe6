package source

import "strings"

// PathKey reports whether a key can be a path in a tree without being taken for another:
// no empty components, no dots alone, nothing that ends a string. Places that are trees
// hold only such keys.
func PathKey(key string) bool {
	if key == "" || strings.IndexByte(key, 0) >= 0 {
		return false
	}
	for component := range strings.SplitSeq(key, "/") {
		if component == "" || component == "." || component == ".." {
			return false
		}
	}
	return true
}
