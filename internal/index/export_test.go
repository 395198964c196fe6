package index

// Drop throws all memtables away, so that a benchmark can fill them for ever.
func Drop(x *Index) {
	x.swap(x.current.Load().mems[0])
	x.publish(func(mems []*memtable, runs []*run) ([]*memtable, []*run) { return mems[:1:1], runs })
}

// Crowd leaves the memtable room for little more, as if it had been given nearly a
// gigabyte.
func Crowd(x *Index) {
	m := x.current.Load().mems[0]
	m.bytesEnd = (arenaPieces - 5) << byteShift
}

// Memtables returns how many there are.
func Memtables(x *Index) int { return len(x.current.Load().mems) }
