package store

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// candidates returns the disks in the order in which they should be tried for a
// name: the one that has it, then by weighted rendezvous, those that refuse
// writes last.
func (s *Store) candidates(name object.Name, all []entry) []*drive {
	if len(s.drives) == 1 {
		return s.drives
	}
	order := slices.Clone(s.drives)
	name.ID = object.Version{} // versions of an object lie together while there is room
	hash := hashName(name)
	score := make(map[*drive]float64, len(order))
	for _, d := range order {
		// A draw from the exponential distribution with the disk's size as rate: the
		// smallest wins with a probability in proportion to the size.
		draw := float64(xxh3.HashStringSeed(d.id.ID, hash)>>11+1) / (1 << 53)
		score[d] = -math.Log(draw) / float64(d.capacity)
		if now := current(all); now != nil && now.drive == d {
			score[d] = 0
		}
		if !d.writable() {
			score[d] += math.MaxFloat32
		}
	}
	slices.SortFunc(order, func(a, b *drive) int {
		if score[a] < score[b] {
			return -1
		}
		return 1
	})
	return order
}

// roomy returns the first of the disks for a name that is in use and has room.
func (s *Store) roomy(name object.Name, size int64) (*drive, error) {
	var first error
	for _, d := range s.candidates(name, nil) {
		err := d.readable()
		if err == nil {
			if err = d.space(size); err == nil {
				return d, nil
			}
			d.wrote(err)
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// parents remembers paths known to be directories for plain tar, so that most
// writes need not ask the index. Bounded: when full it begins anew.
type parents struct {
	mu    sync.Mutex
	known map[uint64]struct{}
}

const maxParents = 1 << 16

func (p *parents) has(hash uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.known[hash]
	return ok
}

func (p *parents) add(hash uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxParents {
		p.known = make(map[uint64]struct{})
	}
	p.known[hash] = struct{}{}
}

// plainName decides whether an object may stand in a pack under its own name.
// Plain tar cannot restore both "a" and "a/b": the second of them is hidden, and
// so is a name of very many parts, each of which would have to be remembered. It
// returns the paths that the name needs as directories and that are new. Two
// first writes at the same moment may both stay plain, and so may those that a
// disk which cannot be asked stands in the way of; only plain tar minds.
func (s *Store) plainName(name object.Name) (hidden bool, fresh []string) {
	if strings.Count(name.Key, "/") > maxDepth {
		return true, nil
	}
	for _, d := range s.drives {
		if d.isParent(name) {
			return true, nil
		}
	}
	for i := strings.IndexByte(name.Key, '/'); i > 0; {
		path := object.Name{Bucket: name.Bucket, Key: name.Key[:i]}
		isNew, blocked := s.parent(path)
		if blocked {
			return true, nil
		}
		if isNew {
			fresh = append(fresh, path.Key)
		}
		next := strings.IndexByte(name.Key[i+1:], '/')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return false, fresh
}

const maxDepth = 64

// parent asks whether a path is known as a directory, or taken by an object.
func (s *Store) parent(path object.Name) (isNew, blocked bool) {
	hash := hashName(path)
	for _, d := range s.drives {
		if d.parents.has(hash) {
			return false, false
		}
	}
	for _, d := range s.drives {
		if d.isParent(path) {
			d.parents.add(hash)
			return false, false
		}
		if e, ok, _ := d.get(path); ok && e.Kind == pack.Object && !e.Hidden {
			return false, true
		}
	}
	return true, false
}

// isParent reports whether the disk knows a path as a directory.
func (d *drive) isParent(path object.Name) bool {
	if d.readable() != nil {
		return false
	}
	_, is, err := d.idx().Get(parentKey(nil, path.Bucket, path.Key), nil)
	if err != nil {
		d.indexFailed(err)
	}
	return is
}
