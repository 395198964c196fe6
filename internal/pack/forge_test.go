package pack_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"slices"
	"testing"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// TestForgery uploads what looks like records, and damages the heads before it,
// so that a scan looks for records in the payloads.
func TestForgery(t *testing.T) {
	m := newMemory(t, 1)
	other := newLog(t, m, options(2))
	other.append(put("stolen", 1), []byte("from another pack"))
	other.append(with(put("../stolen", 2), func(r *pack.Record) { r.Metadata = map[string]string{"a": "b"} }), nil)
	other.append(remove("victim", 99), nil)
	other.sync()
	other.seal()

	l := newLog(t, m, options(1))
	l.append(put("victim", 1), bytes.Repeat([]byte("victim"), 300))
	l.sync()
	carry := func(key string, payload []byte) {
		l.append(put(key, uint64(len(l.records)+1)), payload)
		l.append(put("after-"+key, uint64(len(l.records)+1)), []byte("innocent"))
		l.sync()
	}
	carry("tar", uploadedTar(t))
	carry("other-pack", contents(t, m, 2))
	carry("this-pack", contents(t, m, 1)[:l.w.End()])
	carry("this-pack-again", contents(t, m, 1)[:l.w.End()])
	carry("odd", append(make([]byte, 77), contents(t, m, 1)[:l.w.End()]...))
	carry("bare-records", contents(t, m, 1)[l.records[0].Offset:l.w.End()])
	l.append(put("last", 100), nil)
	l.sync()
	data := contents(t, m, 1)

	for _, damage := range []func([]byte){
		func(head []byte) { clear(head) },
		func(head []byte) { head[0] ^= 1 },
		func(head []byte) { head[156] = 'x' },
		func(head []byte) { copy(head, contents(t, m, 2)[1024:]) },
	} {
		now := slices.Clone(data)
		for _, r := range l.records {
			if len(r.payload) > 3000 {
				damage(now[r.Offset:][:pack.Block])
			}
		}
		l.checkScan(t, data, now, 0)
		l.checkScan(t, data, now, l.w.Synced())
		// All of them, and the pack's own head.
		for _, r := range l.records {
			damage(now[r.Offset:][:pack.Block])
		}
		clear(now[:pack.Block])
		l.checkScan(t, data, now, l.w.Synced())
	}
}

// uploadedTar is a tar made with the standard library, with names like ours.
func uploadedTar(t *testing.T) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"bkt/victim", ".penstock/deleted/bkt/victim", ".penstock/directory", ".penstock/pack"} {
		for _, format := range []tar.Format{tar.FormatUSTAR, tar.FormatPAX} {
			h := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 600, Format: format}
			if format == tar.FormatPAX {
				h.PAXRecords = map[string]string{"PENSTOCK.name": "bkt/victim", "PENSTOCK.size": "0000000000000001"}
			}
			must(t, w.WriteHeader(&h))
			_, err := w.Write(make([]byte, 600))
			must(t, err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

// TestStolenRecord puts a record of one pack at the same place of another: of
// another number, and of the same number on another disk.
func TestStolenRecord(t *testing.T) {
	build := func(o pack.Options, key string) (*log, []byte) {
		m := newMemory(t, 1)
		l := newLog(t, m, o)
		l.append(put(key, 1), []byte("content"))
		l.append(put("next", 2), []byte("content"))
		l.sync()
		return l, contents(t, m, o.ID)
	}
	l, data := build(options(1), "mine")
	foreign := options(1)
	foreign.Secret = bytes.Repeat([]byte{8}, 32)
	for _, o := range []pack.Options{options(2), foreign} {
		thief, stolen := build(o, "thine")
		r := l.records[0]
		if thief.records[0].Location != r.Location {
			t.Fatal("the records do not lie at the same place")
		}
		now := slices.Clone(data)
		copy(now[r.Offset:r.End()], stolen[r.Offset:])
		l.checkScan(t, data, now, 0)
		if good := l.checkReads(t, open(t, now)); good != 1 {
			t.Errorf("%d good", good)
		}
	}
}

// TestForgedLengths uploads blocks that each announce a megabyte of extended
// fields. Looking for records among them must not take a megabyte's work each.
func TestForgedLengths(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	l.append(with(put("x", 1), func(r *pack.Record) { r.Metadata = map[string]string{"a": "b"} }), nil)
	block := contents(t, m, 1)[l.records[0].Offset:][:pack.Block]
	copy(block[124:], "00004000000\x00")
	sum := 0
	for i, c := range block {
		if i < 148 || i >= 156 {
			sum += int(c)
		}
	}
	copy(block[148:], fmt.Sprintf("%06o\x00 ", sum+8*' '))
	l.append(put("many", 2), bytes.Repeat(block, 8192))
	l.sync()
	l.append(put("last", 3), nil)
	data := contents(t, m, 1)
	data[l.records[1].Offset] ^= 1

	var read int64
	fsys := fault.InjectOn(imageFS{packs: image{1: data}}, fault.OpRead, func(op fault.Op) error {
		read += op.Length
		return nil
	})
	f, err := pack.Open(fsys, 1, secret)
	must(t, err)
	visited, _ := l.scan(t, f, pack.ScanOptions{})
	if !slices.Equal(visited, []int{0, 2}) || read > 3*int64(len(data)) {
		t.Errorf("visited %v, read %d bytes of %d", visited, read, len(data))
	}
}

// TestForgedTrailer: an upload that ends like a sealed pack is no directory.
func TestForgedTrailer(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	l.append(put("a", 1), nil)
	at := l.w.End()
	payload := make([]byte, 4*pack.Block)
	trailer := payload[2*pack.Block-24:]
	trailer[0] = 1
	trailer[8], trailer[9] = byte(at), byte(at>>8)
	copy(trailer[16:], "PSTKDIR1")
	l.append(put("b", 2), payload)
	l.sync()
	data := contents(t, m, 1)[:l.w.End()]
	_, err := open(t, data).Directory(func(object.Name, pack.Stub) error { t.Error("an entry"); return nil })
	if !object.Is(err, object.Corrupt) && !object.Is(err, object.NotFound) {
		t.Error(err)
	}
}
