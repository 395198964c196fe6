package dataset

import (
	"sort"
	"strings"
)

// unusable in the place of a size says that there is something wrong with a file.
const unusable = -1

// listing is all files of an origin, in order, in 20 bytes each and their names, and
// 12 bytes for each sample. Files and samples are known by their numbers.
type listing struct {
	folders []*folder
	files   int
	bytes   int64

	samples []uint32 // the number of each one's first file, and where the last one ends
	weights []int64  // how many bytes of a shard each one takes
}

// folder is files that share everything up to the last slash.
type folder struct {
	path   string // with its slash; empty at the top
	names  []byte // one behind the other
	ends   []uint32
	sizes  []int64
	stamps []int64  // when each was last changed, in nanoseconds
	sums   []uint32 // CRC-32, if the origin knows it; otherwise nil
	first  int      // number of the first file
}

// maxNames keeps the ends of names in 32 bits.
const maxNames = 1 << 31

func (f *folder) name(i int) string {
	start := uint32(0)
	if i > 0 {
		start = f.ends[i-1]
	}
	return string(f.names[start:f.ends[i]])
}

// add takes a file whose size is found later, or given.
func (f *folder) add(name string) {
	f.names = append(f.names, name...)
	f.ends = append(f.ends, uint32(len(f.names)))
}

// at returns the folder of a file and its number in it.
func (l *listing) at(file uint32) (*folder, int) {
	n := sort.Search(len(l.folders), func(i int) bool { return l.folders[i].first > int(file) }) - 1
	f := l.folders[n]
	return f, int(file) - f.first
}

// path returns the path of a file from the top of the origin.
func (l *listing) path(file uint32) string {
	f, i := l.at(file)
	return f.path + f.name(i)
}

// files of a sample: from and up to.
func (l *listing) sample(s uint32) (from, to uint32) { return l.samples[s], l.samples[s+1] }

func (l *listing) len() int { return max(0, len(l.samples)-1) }

// key returns the key of a sample.
func (l *listing) key(s uint32) string {
	f, i := l.at(l.samples[s])
	base, _, _ := cutName(f.name(i))
	return f.path + base
}

// cutName divides the last element of a path at its first dot, as WebDataset does:
// what is before it belongs to the key, what is behind it is the field. That is in
// lower case, as WebDataset has it.
func cutName(name string) (base, field string, ok bool) {
	base, field, ok = strings.Cut(name, ".")
	return base, strings.ToLower(field), ok && base != "" && field != ""
}

// take appends a folder, and leaves out files that are unusable and those that
// drop says so of.
func (l *listing) take(f *folder, drop func(i int) bool) {
	kept := *f
	kept.names, kept.ends, kept.sizes, kept.stamps, kept.sums = f.names[:0], f.ends[:0], f.sizes[:0], f.stamps[:0], f.sums[:0]
	start := uint32(0)
	for i, end := range f.ends {
		if f.sizes[i] != unusable && !drop(i) {
			kept.names = append(kept.names, f.names[start:end]...)
			kept.ends = append(kept.ends, uint32(len(kept.names)))
			kept.sizes = append(kept.sizes, f.sizes[i])
			kept.stamps = append(kept.stamps, f.stamps[i])
			if f.sums != nil {
				kept.sums = append(kept.sums, f.sums[i])
			}
			l.bytes += f.sizes[i]
		}
		start = end
	}
	if len(kept.ends) == 0 {
		return
	}
	kept.first = l.files
	l.files += len(kept.ends)
	l.folders = append(l.folders, &kept)
}

// SplitMember divides KEY.FIELD, as it stands in a tar, into both.
func SplitMember(name string) (key, field string, ok bool) {
	slash := strings.LastIndexByte(name, '/') + 1
	base, field, ok := cutName(name[slash:])
	return name[:slash] + base, field, ok
}
