package dataset

import (
	"strings"
	"sync"

	"penstock.dev/penstock/internal/manifest"
)

// taken is a shard that is taken as it is, and its samples: what lies where.
type taken struct {
	path   string // in the origin
	shard  manifest.Shard
	copied bool  // to the dataset's place
	old    []int // its samples in the last version, if it has not changed; then there is nothing else

	keys    []byte // one behind the other
	ends    []uint32
	last    []uint32 // of each sample: where its members end
	members []takenMember
	columns int
	values  []manifest.Value // of each sample as many as there are columns
	dropped []bool           // samples that are left out; nil: none
}

// takenMember is a field of a sample.
type takenMember struct {
	offset int64
	size   uint32
	crc    uint32
	field  uint8
}

func (t *taken) len() int { return len(t.ends) }

func (t *taken) key(i int) string {
	start := uint32(0)
	if i > 0 {
		start = t.ends[i-1]
	}
	return string(t.keys[start:t.ends[i]])
}

func (t *taken) of(i int) []takenMember {
	start := uint32(0)
	if i > 0 {
		start = t.last[i-1]
	}
	return t.members[start:t.last[i]]
}

// names numbers the fields that come up.
type names struct {
	mu      sync.Mutex
	numbers map[string]uint8
	list    []string
}

func newNames() *names { return &names{numbers: map[string]uint8{}} }

func (n *names) number(field string) (uint8, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	number, ok := n.numbers[field]
	if !ok {
		if len(n.list) == manifest.MaxFields {
			return 0, invalid("there are more than %d different fields: %s, ... A field is what is behind the first dot of a name", manifest.MaxFields, strings.Join(n.list[:8], ", "))
		}
		number = uint8(len(n.list))
		n.numbers[field] = number
		n.list = append(n.list, field)
	}
	return number, nil
}

// oldShard is a shard of the last version.
type oldShard struct {
	manifest.Shard
	samples []int
}

// same reports whether a shard is the one that the last version had: it has the same
// tag or, where there are none, was not changed since.
func (o *oldShard) same(now manifest.Shard, untouched bool) bool {
	return o.Size == now.Size && o.Format == now.Format && o.Tag == now.Tag && (now.Tag != "" || untouched)
}

// oldShards returns the shards of the last version by name, if what it says about
// their samples is what this one would say.
func (m *maker) oldShards() map[string]*oldShard {
	last := m.base.last
	if last == nil || m.opts.Repack || m.sameColumns() != nil {
		return nil
	}
	all := make([]*oldShard, last.Shards())
	byName := map[string]*oldShard{}
	for i := range all {
		s, err := last.Shard(i)
		if err != nil {
			return nil
		}
		all[i] = &oldShard{Shard: s, samples: []int{}}
		byName[s.Name] = all[i]
	}
	for i := range last.Len() {
		for f := range last.Fields() {
			p, err := last.Piece(i, f)
			if err != nil {
				return nil
			}
			if !p.Absent {
				all[p.Shard].samples = append(all[p.Shard].samples, i)
				break
			}
		}
	}
	return byName
}
