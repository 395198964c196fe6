package cluster_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
)

// made returns the copies on n drives after a few transactions.
func made(t *testing.T, n int, keys ...string) [][]byte {
	t.Helper()
	all := drives(n)
	a := open(t, disks(all...)...)
	for _, key := range keys {
		must(t, a.put(key, "v"))
	}
	a.stop()
	var copies [][]byte
	for _, m := range all {
		copies = append(copies, file(t, m, "control"))
	}
	return copies
}

// TestCopies sees that copies differ only in which disk they are of.
func TestCopies(t *testing.T) {
	copies := made(t, 3, "a", "b")
	for _, c := range copies[1:] {
		if !bytes.Equal(c[96:], copies[0][96:]) || !bytes.Equal(c[40:92], copies[0][40:92]) || bytes.Equal(c[32:40], copies[0][32:40]) {
			t.Errorf("copies\n%x\n%x", c, copies[0])
		}
	}
}

// TestLostDisk loses each disk in turn, and replaces it or not.
func TestLostDisk(t *testing.T) {
	for n := 2; n <= 4; n++ {
		copies := made(t, n, "a", "b")
		for lost := range n {
			var left, replaced []*fault.Memory
			states := []string{"ok", "ok", "ok", "ok"}
			for i, c := range copies {
				if i == lost {
					replaced = append(replaced, drive(t, nil))
					states[i] = "repaired"
					continue
				}
				left = append(left, drive(t, c))
				replaced = append(replaced, drive(t, c))
			}
			a := open(t, disks(left...)...)
			a.expect("a=v b=v")
			must(t, a.put("c", "v"))
			a.stop()

			a = open(t, disks(replaced...)...)
			a.expect("a=v b=v")
			a.expectDisks(states...)
			if was := a.Disks()[lost].Repaired; !strings.Contains(was, "no copy") {
				t.Errorf("the new disk is described as %q", was)
			}
			a.stop()
			a = open(t, disks(replaced...)...)
			a.expectDisks("ok", "ok", "ok", "ok")
			a.stop()
		}
	}
}

// TestOldDisk brings a disk back that was away while much was written.
func TestOldDisk(t *testing.T) {
	copies := made(t, 3, "old")
	now := []*fault.Memory{drive(t, copies[0]), drive(t, copies[1])}
	a := open(t, disks(now...)...)
	for range 100 {
		must(t, a.put("new", "v"))
	}
	must(t, a.put("old", "changed"))
	a.stop()

	old := drive(t, copies[2])
	for range 2 { // in any order, and twice
		now = append([]*fault.Memory{old}, now...)
		a = open(t, disks(now...)...)
		a.expect("new=v old=changed")
		a.expectDisks("repaired", "ok", "ok", "ok")
		if was := a.Disks()[0].Repaired; !strings.Contains(was, "older") {
			t.Errorf("the old disk is described as %q", was)
		}
		a.stop()
		old = drive(t, copies[2])
	}
	// The old disk alone with one that joined later is not enough to be sure.
	_, err := cluster.OpenAlone(cluster.AloneOptions{Disks: disks(drive(t, copies[2]), now[0])})
	wants(t, object.Unavailable, err)
}

// TestTooManyLost loses two of three disks: what is left may be old.
func TestTooManyLost(t *testing.T) {
	copies := made(t, 3, "a")
	damaged := bytes.Clone(copies[1])
	damaged[110] ^= 1
	for _, others := range [][]*fault.Memory{{}, {drive(t, nil), drive(t, nil)}, {drive(t, damaged), drive(t, nil)}} {
		all := disks(append(others, drive(t, copies[0]))...)
		_, err := cluster.OpenAlone(cluster.AloneOptions{Disks: all})
		wants(t, object.Unavailable, err)
		for _, d := range all[:len(all)-1] {
			if c := file(t, d.FS, "control"); c != nil && !bytes.Equal(c, damaged) {
				t.Error("a refused open wrote to a disk")
			}
		}
		a := start(t, cluster.AloneOptions{Disks: all, AcceptLoss: true})
		a.expect("a=v")
		must(t, a.put("b", "v"))
		a.stop()
		a = open(t, all...)
		a.expect("a=v b=v")
		a.stop()
	}
}

// TestDamage flips each bit, and cuts the file at each byte, of one copy and of
// both.
func TestDamage(t *testing.T) {
	copies := made(t, 2, "key")
	var damages [][]byte
	for i := range copies[0] {
		for bit := range 8 {
			c := bytes.Clone(copies[0])
			c[i] ^= 1 << bit
			damages = append(damages, c)
		}
		damages = append(damages, copies[0][:i])
	}
	damages = append(damages, append(bytes.Clone(copies[0]), 0), make([]byte, 4096))
	for _, c := range damages {
		all := disks(drive(t, c), drive(t, copies[1]))
		a := open(t, all...)
		a.expect("key=v")
		a.expectDisks("repaired", "ok")
		a.stop()
		a = open(t, all[0])
		a.expect("key=v")
		a.stop()

		for _, other := range [][]byte{c, nil} {
			all = disks(drive(t, c), drive(t, other))
			_, err := cluster.OpenAlone(cluster.AloneOptions{Disks: all, AcceptLoss: true})
			wants(t, object.Corrupt, err)
			if !bytes.Equal(file(t, all[0].FS, "control"), c) || !bytes.Equal(file(t, all[1].FS, "control"), other) {
				t.Fatal("a refused open wrote to a disk")
			}
		}
	}
}

// TestUnreadable has disks that answer EIO.
func TestUnreadable(t *testing.T) {
	copies := made(t, 2, "a")
	for _, kind := range []fault.OpKind{fault.OpOpen, fault.OpSize, fault.OpRead} {
		bad := fault.Inject(drive(t, copies[0]), fault.FailFrom(1, kind, errIO))
		a := open(t, cluster.Disk{Name: "a", FS: bad}, cluster.Disk{Name: "b", FS: drive(t, copies[1])})
		a.expect("a=v")
		a.expectDisks("repaired", "ok")
		a.stop()
		_, err := cluster.OpenAlone(cluster.AloneOptions{Disks: []cluster.Disk{{Name: "a", FS: bad}, {Name: "b", FS: drive(t, nil)}}})
		wants(t, object.Unavailable, err)
	}
}

// TestUnknownFormat changes version or features and makes the checksum right
// again, as a newer version of penstock would have written it.
func TestUnknownFormat(t *testing.T) {
	copies := made(t, 2, "a")
	for _, at := range []int{8, 11, 12, 15} {
		newer := bytes.Clone(copies[0])
		newer[at] ^= 0x40
		binary.LittleEndian.PutUint32(newer[92:], crc32.ChecksumIEEE(newer[:92]))
		all := disks(drive(t, newer), drive(t, copies[1]))
		_, err := cluster.OpenAlone(cluster.AloneOptions{Disks: all, AcceptLoss: true})
		wants(t, object.Invalid, err)
		if !strings.Contains(err.Error(), "newer version") || !strings.Contains(err.Error(), "disk a") {
			t.Errorf("the error does not say what is wrong: %v", err)
		}
		if !bytes.Equal(file(t, all[0].FS, "control"), newer) || !bytes.Equal(file(t, all[1].FS, "control"), copies[1]) {
			t.Error("a refused open wrote to a disk")
		}
	}
}

// TestForeignDisk mixes the disks of two clusters.
func TestForeignDisk(t *testing.T) {
	ours, theirs := made(t, 2, "a"), made(t, 1, "a", "b", "c")
	_, err := cluster.OpenAlone(cluster.AloneOptions{Disks: disks(drive(t, ours[0]), drive(t, theirs[0]), drive(t, ours[1]))})
	wants(t, object.Invalid, err)
}

// TestUsedApart runs both disks of a pair without the other, then together.
func TestUsedApart(t *testing.T) {
	copies := made(t, 2, "a")
	left, right := drive(t, copies[0]), drive(t, copies[1])
	for key, m := range map[string]*fault.Memory{"left": left, "right": right} {
		a := open(t, disks(m)...)
		must(t, a.put(key, "v"))
		a.stop()
	}
	_, err := cluster.OpenAlone(cluster.AloneOptions{Disks: disks(left, right)})
	wants(t, object.Corrupt, err)
}

// TestCopiedDisk has a disk that is a copy of another, identity included.
func TestCopiedDisk(t *testing.T) {
	copies := made(t, 1, "a")
	all := []*fault.Memory{drive(t, copies[0]), drive(t, copies[0]), drive(t, nil)}
	a := open(t, disks(all...)...)
	a.expect("a=v")
	must(t, a.put("b", "v"))
	a.stop()
	// Had the two the same identity still, losing the others would go unnoticed.
	_, err := cluster.OpenAlone(cluster.AloneOptions{Disks: disks(all[0])})
	wants(t, object.Unavailable, err)
	open(t, disks(all[0], all[1])...).expect("a=v b=v")
}

// TestMoreDisks adds fresh disks to a node, then takes old ones away one by one.
func TestMoreDisks(t *testing.T) {
	all := drives(4)
	for n := 1; n <= 4; n++ {
		a := open(t, disks(all[:n]...)...)
		must(t, a.put("n", "v"))
		a.stop()
	}
	for n := 1; n < 4; n++ {
		a := open(t, disks(all[n:]...)...)
		a.expect("n=v")
		must(t, a.put("n", "v"))
		a.stop()
	}
	for _, n := range []int{0, cluster.MaxDisks + 1} {
		_, err := cluster.OpenAlone(cluster.AloneOptions{Disks: disks(drives(n)...)})
		wants(t, object.Invalid, err)
	}
}
