package cluster_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, kind object.Kind, err error) {
	t.Helper()
	if !object.Is(err, kind) {
		t.Fatalf("error %v, want one of kind %s", err, kind)
	}
}

// drives returns so many empty drives.
func drives(n int) []*fault.Memory {
	all := make([]*fault.Memory, n)
	for i := range all {
		all[i] = fault.NewMemory(uint64(i) + 1)
	}
	return all
}

// disks names drives by their letters.
func disks[FS disk.FS](all ...FS) []cluster.Disk {
	var named []cluster.Disk
	for i, fsys := range all {
		named = append(named, cluster.Disk{Name: string(rune('a' + i)), FS: fsys})
	}
	return named
}

// alone is an Alone that runs.
type alone struct {
	*cluster.Alone
	t    testing.TB
	stop func() // ends Run and waits
}

// start opens an Alone and runs it until stop, or the end of the test.
func start(t testing.TB, opts cluster.AloneOptions) *alone {
	t.Helper()
	a, err := cluster.OpenAlone(opts)
	must(t, err)
	return run(t, a)
}

func run(t testing.TB, a *cluster.Alone) *alone {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx); close(ended) }()
	stop := func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return &alone{a, t, stop}
}

func open(t testing.TB, d ...cluster.Disk) *alone {
	t.Helper()
	return start(t, cluster.AloneOptions{Disks: d})
}

func (a *alone) put(key, value string) error {
	_, err := a.Txn(a.t.Context(), cluster.Txn{Then: []cluster.Op{cluster.Put(key, []byte(value))}})
	return err
}

// content returns all records as "key=value key=value".
func (a *alone) content() string {
	a.t.Helper()
	view, err := a.List(a.t.Context(), "")
	must(a.t, err)
	out := ""
	for i, r := range view.Records {
		if i > 0 {
			out += " "
		}
		out += fmt.Sprintf("%s=%s", r.Key, r.Value)
	}
	return out
}

func (a *alone) expect(content string) {
	a.t.Helper()
	if got := a.content(); got != content {
		a.t.Fatalf("records %q, want %q", got, content)
	}
}

// expectDisks compares what Disks says, as words: "ok", "bad", "repaired".
func (a *alone) expectDisks(want ...string) {
	a.t.Helper()
	for i, s := range a.Disks() {
		got := "ok"
		switch {
		case s.Err != nil:
			got = "bad"
		case s.Repaired != "":
			got = "repaired"
		}
		if got != want[i] {
			a.t.Errorf("disk %s is %s, want %s: %+v", s.Name, got, want[i], s)
		}
	}
}

// file returns a whole file, nil if there is none.
func file(t *testing.T, fsys disk.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return data
}

// drive returns a drive with a snapshot file of the given content.
func drive(t *testing.T, control []byte) *fault.Memory {
	t.Helper()
	m := fault.NewMemory(1)
	if control == nil {
		return m
	}
	f, err := m.Create("control")
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(control, 0)
	must(t, err)
	must(t, f.Sync())
	must(t, m.SyncDir("."))
	return m
}
