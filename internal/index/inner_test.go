package index

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// runsOf returns runs of the given sizes in MiB, newest first.
func runsOf(sizes ...int64) []*run {
	var runs []*run
	for _, s := range sizes {
		runs = append(runs, &run{size: s << 20, footer: footer{entries: uint64(s) << 10}})
	}
	return runs
}

func TestPickMerge(t *testing.T) {
	for _, c := range []struct {
		name     string
		runs     []*run
		from, to int
	}{
		{"none", nil, 0, 0},
		{"three alike", runsOf(1, 1, 1), 0, 0},
		{"four small", runsOf(1, 2, 3, 1), 0, 4},
		{"four alike", runsOf(20, 17, 16, 60, 100, 400), 0, 4},
		{"newer small ones stay", runsOf(1, 20, 17, 16, 60), 1, 5},
		{"small ones between go along", runsOf(20, 1, 17, 16, 60, 2, 100), 0, 6},
		{"a larger one divides", runsOf(20, 17, 100, 16, 60), 0, 0},
		{"small ones first", runsOf(20, 17, 16, 60, 100, 1, 1, 1, 1), 5, 9},
		{"one of each", runsOf(1, 4, 16, 64, 256, 1024), 0, 0},
	} {
		if from, to := pickMerge(c.runs); from != c.from || to != c.to {
			t.Errorf("%s: %d to %d, want %d to %d", c.name, from, to, c.from, c.to)
		}
	}
	many := runsOf(slices.Repeat([]int64{300, 300, 300, 1}, 7)...)
	if from, to := pickMerge(many); to-from < 2 {
		t.Errorf("%d runs and nothing to do", len(many))
	}
	deleted := runsOf(1, 100)
	deleted[0].footer.deletes = deleted[0].footer.entries
	if from, to := pickMerge(deleted); from != to {
		t.Errorf("few deletes: %d to %d", from, to)
	}
	deleted = runsOf(50, 100)
	deleted[0].footer.deletes = deleted[0].footer.entries
	if from, to := pickMerge(deleted); from != 0 || to != 2 {
		t.Errorf("many deletes: %d to %d", from, to)
	}
}

// TestRunsStayFew feeds the policy for a long time and counts.
func TestRunsStayFew(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var runs []*run
	written, merged, most := int64(0), int64(0), 0
	for range 5000 {
		r := &run{size: 16<<20 + random.Int64N(1<<20), footer: footer{entries: 1000}}
		if random.IntN(4) == 0 {
			r.size = random.Int64N(16 << 20)
		}
		written += r.size
		runs = append([]*run{r}, runs...)
		for {
			from, to := pickMerge(runs)
			if from == to {
				break
			}
			one := &run{footer: footer{entries: 1000}}
			for _, r := range runs[from:to] {
				one.size += r.size
			}
			merged += one.size
			runs = slices.Concat(runs[:from], []*run{one}, runs[to:])
		}
		most = max(most, len(runs))
	}
	t.Logf("%d GiB in at most %d runs; each byte was merged %.1f times", written>>30, most, float64(merged)/float64(written))
	if most > maxRuns || merged > 9*written {
		t.Fatal("too much")
	}
}

// TestMemtable compares a memtable with a map, in several orders of keys.
func TestMemtable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, key := range map[string]func(i int) string{
		"in order":  func(i int) string { return fmt.Sprintf("key %08d", i) },
		"backward":  func(i int) string { return fmt.Sprintf("key %08d", 1<<20-i) },
		"random":    func(int) string { return fmt.Sprintf("key %08d", random.IntN(1<<20)) },
		"prefixes":  func(i int) string { return strings.Repeat("a", random.IntN(1000)) },
		"two kinds": func(i int) string { return fmt.Sprintf("%c%d", "ob"[i%2], i*7919%30011) },
		"zeros":     func(i int) string { return strings.Repeat("\x00", random.IntN(300)) + string(rune('a'+i%3)) },
		"short":     func(int) string { return string([]byte{byte(random.Uint32()), byte(random.Uint32())}[:random.IntN(3)]) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemtable(1, smallTable)
			want := map[string]string{}
			for i := range 8000 {
				k, v := key(i), fmt.Sprint(i)
				m.set(uint64(crc32.ChecksumIEEE([]byte(k))), []byte(k), []byte(v), i%5 == 0)
				if want[k] = v; i%5 == 0 {
					want[k] = "gone"
				}
			}
			m.publish()
			checkMemtable(t, m, want)
		})
	}
}

func checkMemtable(t *testing.T, m *memtable, want map[string]string) {
	t.Helper()
	show := func(value []byte, deleted bool) string {
		if deleted {
			return "gone"
		}
		return string(value)
	}
	if int(m.count.Load()) != len(want) {
		t.Fatalf("%d keys, want %d", m.count.Load(), len(want))
	}
	keys := slices.Sorted(maps.Keys(want))
	s := &memSource{table: m}
	for _, k := range keys {
		if !s.next() || string(s.key()) != k || show(s.value()) != want[k] {
			t.Fatalf("walking: %.20q, want %.20q", s.key(), k)
		}
		node := m.find(uint64(crc32.ChecksumIEEE([]byte(k))), []byte(k))
		if node == 0 || show(m.value(node)) != want[k] {
			t.Fatalf("find %.20q: %d", k, node)
		}
	}
	for range 2 {
		if s.next() {
			t.Fatal("walking goes on")
		}
	}
	for i, k := range keys {
		if i%17 == 0 && (!s.seek([]byte(k)) || string(s.key()) != k) {
			t.Fatalf("seek %.20q: %.20q", k, s.key())
		}
	}
	if s.seek(bytes.Repeat([]byte{0xff}, 10)) {
		t.Fatal("seek behind all")
	}
}

// TestArena takes the arena to the last byte of its pieces.
func TestArena(t *testing.T) {
	m := newMemtable(1, smallTable)
	var taken [][]byte
	take := func(n int) {
		at, room := m.allocBytes(n)
		if piece := m.bytes[at>>byteShift][at&(1<<byteShift-1):]; &piece[0] != &room[0] {
			t.Fatalf("the address of room %d is wrong", len(taken))
		}
		room[0] = byte(len(taken) % 251)
		taken = append(taken, room)
	}
	for m.bytesEnd < 5<<byteShift {
		left := 1<<byteShift - int(m.bytesEnd&(1<<byteShift-1))
		take(min(left, 16))
		if left <= 16 {
			take(1)
		}
	}
	for i, room := range taken {
		if room[0] != byte(i%251) {
			t.Fatalf("room %d was given out twice", i)
		}
	}
}

// TestFilter counts how many absent keys pass.
func TestFilter(t *testing.T) {
	const n = 100000
	f := newFilter(n)
	for i := range n {
		f.add(filterHash(fmt.Appendf(nil, "there %d", i)))
	}
	passed := 0
	for i := range n {
		if !f.has(filterHash(fmt.Appendf(nil, "there %d", i))) {
			t.Fatalf("key %d is not let pass", i)
		}
		if f.has(filterHash(fmt.Appendf(nil, "absent %d", i))) {
			passed++
		}
	}
	t.Logf("%.2f bits a key; %.2f %% of absent keys pass", float64(len(f))*8/n, float64(passed)*100/n)
	if passed > n*15/1000 {
		t.Fatal("too many")
	}
}
