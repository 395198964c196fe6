package dataset

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"penstock.dev/penstock/internal/shard"
)

// member is one file of a sample on its way into a shard.
type member struct {
	name   string // in the shard
	path   string // in the origin; empty: the content is text
	text   string
	field  int // its number, or -1
	column int // its number, or -1
	header int // bytes before the content
	size   int64
	at     int // where the header begins in the packer's buffer

	sum    uint32 // CRC-32, if the origin knows it
	summed bool
}

// weight is how many bytes it takes in a shard.
func (m *member) weight(records bool) int64 {
	if records {
		return m.size
	}
	return int64(m.header) + m.size + shard.Padding(m.size)
}

// layout makes members of samples.
type layout struct {
	listing *listing
	shape   *shape
	records bool
	byClass bool
}

// append appends the members of a sample, in the order they have in its shard. A
// column of a record shard has no place there.
func (y *layout) append(members []member, sample uint32) []member {
	from, to := y.listing.sample(sample)
	f, i := y.listing.at(from)
	key := ""
	for file := from; file < to; file++ {
		name := f.name(i)
		base, field, _ := cutName(name)
		m := member{path: f.path + name, field: -1, column: -1, size: f.sizes[i]}
		if m.name = m.path; !strings.HasSuffix(name, field) {
			m.name = f.path + base + "." + field
		}
		key = m.name[:len(m.name)-len(field)]
		if c, column := y.shape.columns[field]; column {
			m.column = c
		} else {
			m.field = y.shape.fields[field]
		}
		if f.sums != nil {
			m.sum, m.summed = f.sums[i], true
		}
		members = append(members, y.placed(m))
		i++
	}
	if y.byClass {
		number := strconv.Itoa(y.shape.classes[classOf(f.path)])
		members = append(members, y.placed(member{name: key + class, text: number, field: -1, column: y.shape.columns[class], size: int64(len(number))}))
	}
	return members
}

func (y *layout) placed(m member) member {
	if !y.records {
		m.header = int(shard.HeaderSize(m.name))
	}
	return m
}

// weigh finds how much of a shard each sample takes, and returns how many bytes
// there are in fields.
func (y *layout) weigh(workers int) int64 {
	weights := make([]int64, y.listing.len())
	var total atomic.Int64
	parallel(workers, len(weights), 1024, func(from, to int) {
		var members []member
		bytes := int64(0)
		for s := from; s < to; s++ {
			members = y.append(members[:0], uint32(s))
			for i := range members {
				weights[s] += members[i].weight(y.records)
				if members[i].field >= 0 {
					bytes += members[i].size
				}
			}
		}
		total.Add(bytes)
	})
	y.listing.weights = weights
	return total.Load()
}

// parallel divides n things among workers, so many at a time.
func parallel(workers, n, each int, do func(from, to int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(workers, (n+each-1)/each) {
		group.Go(func() {
			for {
				from := int(next.Add(int64(each))) - each
				if from >= n {
					return
				}
				do(from, min(from+each, n))
			}
		})
	}
	group.Wait()
}
