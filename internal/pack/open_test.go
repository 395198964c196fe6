package pack_test

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

func TestOpen(t *testing.T) {
	m := newMemory(t, 1)
	o := options(3)
	o.Previous, o.End, o.Moved = 2, 4096, true
	l := newLog(t, m, o)
	l.append(put("k", 1), []byte("content"))
	if f, err := pack.Open(m, 3, secret); !object.Is(err, object.NotFound) {
		t.Fatal("a pack of moved records is there before it is sealed", f, err)
	}
	l.seal()
	data := contents(t, m, 3)
	for _, secret := range [][]byte{secret, nil} {
		f, err := pack.Open(m, 3, secret)
		must(t, err)
		if id, end := f.Previous(); id != 2 || end != 4096 || !f.Moved() || f.ID() != 3 {
			t.Error(f)
		}
		if size, err := f.Size(); err != nil || size != int64(len(data)) {
			t.Error(size, err)
		}
		l.checkWhole(t, f)
		must(t, f.Close())
	}

	// Two characters of the check exchanged leave tar's own checksum as it is.
	exchanged := slices.Clone(data)
	check := exchanged[237:257]
	other := slices.IndexFunc(check, func(c byte) bool { return c != check[0] })
	check[0], check[other] = check[other], check[0]

	for name, c := range map[string]struct {
		id     uint64
		data   []byte
		secret []byte
		kind   object.Kind
	}{
		"another number":            {4, data, secret, object.Invalid},
		"another number, no secret": {4, data, nil, object.Invalid},
		"another disk":              {3, data, bytes.Repeat([]byte{1}, 32), object.Invalid},
		"empty, no secret":          {3, nil, nil, object.Corrupt},
		"zeros, no secret":          {3, make([]byte, 8192), nil, object.Corrupt},
		"key damaged":               {3, flipped(data, bytes.Index(data, []byte("key "))+10), nil, object.Corrupt},
		"check damaged":             {3, exchanged, nil, object.Corrupt},
	} {
		if _, err := pack.Open(imageFS{packs: image{c.id: c.data}}, c.id, c.secret); !object.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}

	// With the secret a damaged head hides nothing.
	f, err := pack.Open(imageFS{packs: image{3: flipped(data, 520)}}, 3, secret)
	must(t, err)
	if id, _ := f.Previous(); id != 0 || f.Moved() {
		t.Error("told from a damaged head")
	}
	if visited, _ := l.scan(t, f, pack.ScanOptions{Floor: l.records[0].End()}); len(visited) != 1 {
		t.Error(visited)
	}
}

func flipped(data []byte, at int) []byte {
	data = slices.Clone(data)
	data[at] ^= 1
	return data
}

// TestImpossibleLocations: a damaged index asks for anything.
func TestImpossibleLocations(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	l.append(put("k", 1), []byte("content"))
	l.sync()
	f := open(t, contents(t, m, 1))
	good := l.records[0].Location
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, l := range []pack.Location{
		{},
		{Offset: -512, Head: 512},
		{Offset: good.Offset, Head: 0, Payload: 7},
		{Offset: good.Offset, Head: 511, Payload: 7},
		{Offset: good.Offset, Head: 512, Payload: -600},
		{Offset: good.Offset, Head: 512, Payload: 1 << 62},
		{Offset: good.Offset, Head: 512, Payload: 1 << 32},
		{Offset: 1 << 60, Head: 512, Payload: 7},
		{Offset: good.Offset, Head: 1 << 40, Payload: 7},
		{Offset: good.Offset, Head: 1024, Payload: 7},
		{Offset: good.Offset + 512, Head: 512, Payload: 7},
		{Offset: good.Offset, Head: 512, Payload: 8},
		{Offset: good.Offset, Head: 512, Payload: 6},
	} {
		if r, _, err := f.Read(l, nil); !object.Is(err, object.Corrupt) {
			t.Errorf("read %+v: %+v, %v", l, r, err)
		}
		if r, err := f.Head(l); !object.Is(err, object.Corrupt) {
			t.Errorf("head %+v: %+v, %v", l, r, err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes of memory were taken", n)
	}
}

func TestFileNames(t *testing.T) {
	for _, id := range []uint64{0, 1, 0xdeadbeef, 1<<64 - 1} {
		base := pack.FileName(id)[len(pack.Dir)+1:]
		if got, ok := pack.ParseFileName(base); !ok || got != id {
			t.Error(base, got, ok)
		}
		if pack.Leftover(base) || !pack.Leftover(base+".new") {
			t.Error(base)
		}
	}
	for _, name := range []string{"", ".tar", "1.tar", "000000000000000G.tar", "00000000DEADBEEF.tar", "0000000000000001.tar.new", "0000000000000001.tar ", "00000000000000001.tar", "+000000000000001.tar", "0x00000000000001.tar"} {
		if id, ok := pack.ParseFileName(name); ok {
			t.Errorf("%q is pack %d", name, id)
		}
	}
}
