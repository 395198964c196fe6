package pack_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

func isFull(err error) bool {
	var full *pack.FullError
	return errors.As(err, &full) && object.Is(err, object.Unavailable) && errors.Is(err, syscall.ENOSPC)
}

// TestFullDisk: a record for which there is no room changes nothing.
func TestFullDisk(t *testing.T) {
	m := newMemory(t, 1)
	m.SetCapacity(256 << 10)
	l := newLog(t, m, options(1))
	l.append(put("a", 1), make([]byte, 100_000))
	before := l.w.End()
	big := draft(put("big", 2), make([]byte, 200_000))
	if err := l.w.Append(draft(put("b", 3), nil), big); !isFull(err) {
		t.Fatal(err)
	}
	if l.w.End() != before {
		t.Fatal(l.w.End())
	}
	checkMembers(t, contents(t, m, 1), 2)
	l.append(put("c", 4), make([]byte, 100_000)) // room for this much is left
	l.sync()
	m.SetCapacity(1 << 20)
	must(t, l.w.Append(big))
	l.records = append(l.records, written{big, make([]byte, 200_000), l.w.Synced()})
	l.sync()
	l.checkWhole(t, open(t, contents(t, m, 1)))
	l.seal()
	l.checkWhole(t, open(t, contents(t, m, 1)))
}

// TestFullDiskAtWrite: the same where room cannot be reserved and the write
// itself fails, after any number of bytes. Nothing of it may come back.
func TestFullDiskAtWrite(t *testing.T) {
	for _, written := range []int64{0, 1, 512, 513, 1024, 1536, 2048, 2560} {
		m := newMemory(t, 1)
		on := false
		l := newLog(t, fault.InjectOn(m, fault.OpWrite, func(fault.Op) error {
			if on {
				return &fault.Short{N: written, Err: syscall.ENOSPC}
			}
			return nil
		}), options(1))
		l.append(put("a", 1), []byte("a"))
		l.sync()
		on = true
		lost := draft(put("lost", 2), []byte("first"))
		again := draft(put("again", 3), []byte("second"))
		if err := l.w.Append(lost, again, draft(put("lost", 4), nil)); !isFull(err) {
			t.Fatal(err)
		}
		on = false
		checkMembers(t, contents(t, m, 1), 2)
		l.append(put("c", 5), []byte("third")) // as long as the first that was lost
		l.sync()
		l.checkWhole(t, open(t, contents(t, m, 1)))
		checkMembers(t, contents(t, m, 1), 3)
		if size := len(contents(t, m, 1)); int64(size) < l.w.End()+2*pack.Block {
			t.Errorf("%d bytes, but the records end at %d", size, l.w.End())
		}
		must(t, l.w.Append(again))
		l.append(put("d", 6), nil)
		must(t, l.w.Seal())
		checkMembers(t, contents(t, m, 1), 6)
	}
}

// TestSuspectPack: after a failed write or sync the writer only says so.
func TestSuspectPack(t *testing.T) {
	for _, kind := range []fault.OpKind{fault.OpWrite, fault.OpSync, fault.OpAllocate} {
		m := newMemory(t, 1)
		on := false
		l := newLog(t, fault.InjectOn(m, kind, func(fault.Op) error {
			if on {
				return syscall.EIO
			}
			return nil
		}), options(1))
		l.append(put("a", 1), []byte("a"))
		l.sync()
		synced := l.w.Synced()
		on = true
		err := l.w.Append(draft(put("b", 2), make([]byte, 100_000)))
		if err == nil {
			err = l.w.Sync()
		}
		if !object.Is(err, object.Unavailable) || isFull(err) || !errors.Is(err, syscall.EIO) {
			t.Fatal(kind, err)
		}
		on = false // as if the drive had recovered, which it may pretend
		for _, again := range []error{l.w.Append(draft(put("c", 3), nil)), l.w.Sync(), l.w.Seal()} {
			if !errors.Is(again, syscall.EIO) {
				t.Errorf("%v: %v", kind, again)
			}
		}
		if l.w.Synced() != synced {
			t.Errorf("%v: synced to %d", kind, l.w.Synced())
		}
		f, err := pack.Open(m, 1, secret)
		must(t, err)
		n := 0
		_, err = f.Scan(pack.ScanOptions{Floor: synced}, func(*pack.Record, pack.Location) error { n++; return nil })
		if err != nil || n < 1 {
			t.Error(n, err)
		}
	}
}

// TestFullDiskAtSync: a full disk that shows when it is too late is a failure
// like any other.
func TestFullDiskAtSync(t *testing.T) {
	for _, kinds := range []fault.OpKind{fault.OpSync, fault.OpWrite | fault.OpTruncate} {
		m := newMemory(t, 1)
		on := false
		l := newLog(t, fault.InjectOn(m, kinds, func(fault.Op) error {
			if on {
				return syscall.ENOSPC
			}
			return nil
		}), options(1))
		on = true
		err := l.w.Append(draft(put("a", 1), nil))
		if err == nil {
			err = l.w.Sync()
		}
		if !object.Is(err, object.Unavailable) || isFull(err) {
			t.Error(kinds, err)
		}
		on = false
		if again := l.w.Append(draft(put("b", 2), nil)); again != err {
			t.Error(kinds, again)
		}
		must(t, l.w.Discard())
	}
}

// TestCut: a pack that was given up is cut by whoever knows where it ends.
func TestCut(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	l.append(put("a", 1), []byte("a"))
	l.sync()
	must(t, l.w.Append(draft(put("b", 2), []byte("b"))))
	must(t, l.w.Discard())
	must(t, pack.SyncFile(m, 1))
	if n := len(contents(t, m.Image(), 1)); int64(n) < l.w.End() {
		t.Fatal(n)
	}
	must(t, pack.Cut(m, 1, l.w.Synced()))
	for range 5 {
		data := contents(t, m.Image(), 1)
		if int64(len(data)) != l.w.Synced() {
			t.Fatal(len(data))
		}
		l.checkWhole(t, open(t, data))
	}
	if err := pack.Cut(m, 2, 1024); err == nil {
		t.Error("cut a pack that is not there")
	}
	if err := pack.SyncFile(m, 2); err == nil {
		t.Error("synced a pack that is not there")
	}
}

// TestCreateFails at each step: no file is left, or one without records.
func TestCreateFails(t *testing.T) {
	for _, moved := range []bool{false, true} {
		for _, dead := range []bool{false, true} {
			for n := int64(1); ; n++ {
				m := newMemory(t, 1)
				hook := fault.FailNth(n, fault.AnyOp, syscall.EIO)
				if dead {
					hook = fault.FailFrom(n, fault.AnyOp, syscall.EIO)
				}
				o := options(1)
				o.Moved = moved
				w, err := pack.Create(fault.Inject(m, hook), o)
				if err == nil {
					w.Discard()
					if n < 5 {
						t.Fatalf("only %d steps", n)
					}
					break
				}
				if !errors.Is(err, syscall.EIO) || !object.Is(err, object.Unavailable) {
					t.Error(err)
				}
				names, err := m.ReadDir(pack.Dir)
				must(t, err)
				if len(names) > 0 && !dead {
					t.Errorf("step %d left %v", n, names)
				}
				for _, name := range names {
					if moved && !pack.Leftover(name) {
						t.Errorf("step %d left %v", n, names)
					}
					if !pack.Leftover(name) {
						f, err := pack.Open(m, 1, secret)
						must(t, err)
						(&log{}).checkAfterCut(t, m, 0)
						must(t, f.Close())
					}
				}
			}
		}
	}
	m := newMemory(t, 1)
	m.SetMaxFiles(1)
	if _, err := pack.Create(m, options(1)); !isFull(err) {
		t.Error(err)
	}
	m.SetMaxFiles(0)
	m.SetCapacity(0)
	if _, err := pack.Create(m, options(1)); !isFull(err) {
		t.Error(err)
	}
	if names, _ := m.ReadDir(pack.Dir); len(names) > 0 {
		t.Error(names)
	}
	m.SetCapacity(1 << 20)
	l := newLog(t, m, options(1))
	if _, err := pack.Create(m, options(1)); err == nil {
		t.Error("made twice")
	}
	l.append(put("still", 1), nil) // the other attempt did not remove it
	l.seal()
	l.checkWhole(t, open(t, contents(t, m, 1)))
}

// TestSealFails at each step: every record is there, under the pack's name or,
// if it never got that, as a leftover.
func TestSealFails(t *testing.T) {
	for _, moved := range []bool{false, true} {
		for n := int64(1); ; n++ {
			m := newMemory(t, 1)
			on := false
			fail := fault.FailNth(n, fault.AnyOp, syscall.EIO)
			o := options(1)
			o.Moved = moved
			l := newLog(t, fault.Inject(m, func(op fault.Op) error {
				if on {
					return fail(op)
				}
				return nil
			}), o)
			for i := range uint64(3) {
				l.append(put(fmt.Sprint("k", i), i+1), make([]byte, 40_000))
			}
			on = true
			err := l.w.Seal()
			if err == nil {
				if n < 4 {
					t.Fatalf("only %d steps", n)
				}
				break
			}
			names, rerr := m.ReadDir(pack.Dir)
			must(t, rerr)
			if len(names) != 1 {
				t.Fatal(names)
			}
			if pack.Leftover(names[0]) {
				continue
			}
			data := contents(t, m, 1)
			l.checkScan(t, data, data, 0)
			checkReadable(t, data)
		}
	}
}

func checkReadable(t *testing.T, data []byte) {
	t.Helper()
	if plain, _ := members(t, data); len(plain) != 3 {
		t.Fatal(len(plain))
	}
}
