package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/dataset"
	"penstock.dev/penstock/internal/object"
)

// childVariable makes the test binary a run of Create that can be killed: TREE:DIR or
// TREE:ENDPOINT.
const childVariable = "PENSTOCK_DATASET_CHILD"

var childOptions = dataset.Options{Name: "set", ShardSize: 64 << 10, Workers: 2}

func child(where string) int {
	tree, to, _ := strings.Cut(where, ":")
	place := dataset.Directory(to)
	if strings.HasPrefix(to, "http") {
		client, err := penstock.New(penstock.Options{Endpoint: to})
		if err == nil {
			place, err = dataset.Bucket(context.Background(), client, "set", testBucket)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if _, err := dataset.Create(context.Background(), place, dataset.Tree(tree), childOptions); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// settle waits until files that were just written are old enough to be taken for
// unchanged.
func settle() { time.Sleep(30 * time.Millisecond) }

// killed runs Create in a process of its own and kills it when there are so many
// shards in the directory.
func (m *maker) killed(shards int) {
	m.Helper()
	last := filepath.Join(m.to, "000001", fmt.Sprintf("%06d.tar", shards-1))
	m.killedWhen(m.to, func() bool {
		_, err := os.Stat(last)
		return err == nil
	})
}

func (m *maker) killedWhen(to string, enough func() bool) {
	m.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+m.tree+":"+to)
	cmd.Stderr = os.Stderr
	must(m, cmd.Start())
	for !enough() {
		if versions, _ := dataset.Versions(m.Context(), m.place()); len(versions) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	must(m, cmd.Process.Kill())
	_ = cmd.Wait() // it says that it was killed
}

// TestKilledRunsAreContinued: after kill -9 at any moment nothing is seen of the
// version, and the next run takes over the shards that were whole.
func TestKilledRunsAreContinued(t *testing.T) {
	r := seeded(t)
	tree := randomTree(r, 400)
	reused := int64(0)
	for _, shards := range []int{1, 2 + r.IntN(4), 6 + r.IntN(15)} {
		m := newMaker(t)
		tree.write(t, m.tree)
		settle()
		m.killed(shards)
		if versions, err := dataset.Versions(t.Context(), m.place()); err != nil || len(versions) > 0 {
			t.Logf("the run was done before it was killed: %v, %v", versions, err)
			m.holds(1, tree)
			continue
		}
		content{".manifest-0123456789abcdef.tmp": "x", "manifest-000001.new": "x", "000001/000999.tar": "x", "000001/000003.tar.part": "x"}.write(t, m.to)
		report := m.mustCreate(childOptions)
		m.holds(1, tree)
		t.Logf("killed at %d shards; %d taken over, %d written", shards, report.Reused, report.Shards)
		reused += report.Reused
		if report.Reused < int64(shards)-2 { // two may have been written in another order
			t.Errorf("%+v", report)
		}
		m.noRubbish(1)
	}
	if reused == 0 {
		t.Error("nothing was taken over")
	}
}

// noRubbish checks that there is nothing but published versions.
func (m *maker) noRubbish(versions int) {
	m.Helper()
	known := map[string]bool{}
	for i := 1; i <= versions; i++ {
		known[fmt.Sprintf("manifest-%06d", i)] = true
		known[fmt.Sprintf("%06d/origin", i)] = true
		v := m.open(uint64(i))
		for s := range v.Shards() {
			shard, err := v.Shard(s)
			must(m, err)
			known[shard.Name] = true
		}
	}
	for name := range readTree(m, m.to) {
		if !known[name] {
			m.Errorf("%s is left", name)
		}
	}
}

// TestOnlyWhatIsTheSameIsTakenOver: a file that was changed, another tree with the
// same names and sizes, another seed.
func TestOnlyWhatIsTheSameIsTakenOver(t *testing.T) {
	r := seeded(t)
	m := newMaker(t)
	tree := content{}
	for i := range 3000 {
		tree[fmt.Sprintf("%d/%04d.bin", i%7, i)] = strings.Repeat(string(rune('a'+r.IntN(26))), 4000)
	}
	tree.write(t, m.tree)
	settle()
	m.killed(10)
	// One file gets other content of the same size, and its old time.
	name := filepath.Join(m.tree, "3/0003.bin")
	st, err := os.Stat(name)
	must(t, err)
	tree["3/0003.bin"] = strings.Repeat("?", 4000)
	must(t, os.WriteFile(name, []byte(tree["3/0003.bin"]), 0o666))
	must(t, os.Chtimes(name, st.ModTime(), st.ModTime()))
	// And a run with another seed leaves some shards too.
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("enough")
	opts := childOptions
	opts.Seed = 5
	opts.SetClock(func() func() time.Time {
		calls := 0
		return func() time.Time {
			if calls++; calls == 2 {
				cancel(gone)
			}
			return time.Now()
		}
	}())
	if _, err := dataset.Create(ctx, dataset.Directory(m.to), dataset.Tree(m.tree), opts); !errors.Is(err, gone) {
		t.Errorf("a run that was stopped: %v", err)
	}
	report := m.mustCreate(childOptions)
	m.holds(1, tree)
	if report.Reused < 5 {
		t.Errorf("%+v", report)
	}
	m.noRubbish(1)

	// Another tree, that is older than what was left.
	other := newMaker(t)
	other.tree = t.TempDir()
	others := maps.Clone(tree)
	for path := range others {
		others[path] = strings.Repeat("o", 4000)
	}
	others.write(t, other.tree)
	first := t.TempDir()
	tree.write(t, first)
	settle()
	mine := other.tree
	other.tree = first
	other.killed(10)
	other.tree = mine
	if report := other.mustCreate(childOptions); report.Reused > 0 {
		t.Errorf("shards of another tree were taken over: %+v", report)
	}
	other.holds(1, others)
}

// TestOneWriterAtATime.
func TestOneWriterAtATime(t *testing.T) {
	m := newMaker(t)
	content{"a.jpg": "x"}.write(t, m.tree)
	opts := dataset.Options{}
	calls := 0
	opts.SetClock(func() time.Time {
		if calls++; calls == 2 {
			if _, err := newMakerAt(m).create(dataset.Options{}); !object.Is(err, object.Busy) {
				t.Errorf("a second one: %v", err)
			}
		}
		return time.Now()
	})
	m.mustCreate(opts)
	m.holds(1, content{"a.jpg": "x"})
}

func newMakerAt(m *maker) *maker {
	return &maker{TB: m.TB, tree: m.tree, place: m.place, origin: m.origin}
}
