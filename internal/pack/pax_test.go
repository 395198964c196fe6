package pack

import (
	"archive/tar"
	"bytes"
	"testing"
)

// FuzzPAX: the parser takes anything without panic, and where archive/tar accepts
// the same bytes it finds the same fields of ours in them. It is fuzzed from
// inside, because nothing reaches it that was not checked with the key.
func FuzzPAX(f *testing.F) {
	for _, r := range []Record{
		{Kind: Object, ContentType: "a/b", ETag: "c-1", Metadata: map[string]string{"k": "v"}, Extents: []Extent{{1, 2, 3}, {4, 5, 6}}, Size: 9},
		{Kind: Tombstone, Hidden: true},
	} {
		f.Add(appendPAX(nil, &r))
	}
	f.Add([]byte("30 mtime=1350244992.023960108\n"))
	f.Add([]byte("9 path=\n+9 path=a\n"))
	f.Add([]byte("99999999999999999999 path=a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || len(data) > maxPAX {
			return
		}
		var r Record
		parsePAX(data, &r, "") //nolint:errcheck // the panic is looked for
		fields := map[string]string{}
		for rest := data; len(rest) > 0; {
			key, value, next, err := cutPAX(rest)
			if err != nil {
				return
			}
			fields[key] = value
			rest = next
		}
		for key, want := range fields {
			if got, ok := tarFields(data)[key]; ok && got != want {
				t.Fatalf("%q is %q, for archive/tar %q", key, want, got)
			}
		}
	})
}

// tarFields has archive/tar read PAX data; nil if it refuses to.
func tarFields(data []byte) map[string]string {
	b := make([]byte, 2*Block+padded(int64(len(data)))+2*Block)
	ustar(b[:Block], 'x', []byte(nameExtended), int64(len(data)), 0)
	putSum(b[:Block])
	copy(b[Block:], data)
	block := b[len(b)-3*Block:][:Block]
	ustar(block, '0', []byte(nameLong), 0, 0)
	putSum(block)
	h, err := tar.NewReader(bytes.NewReader(b)).Next()
	if err != nil {
		return nil
	}
	return h.PAXRecords
}

// TestNewerVersions: records and packs with what this version does not know are
// refused, not skipped.
func TestNewerVersions(t *testing.T) {
	key := NewKey([]byte("secret"), 1)
	for name, change := range map[string]func(facts *[factsLen]byte){
		"format":       func(f *[factsLen]byte) { f[factFormat] = Format + 1 },
		"kind":         func(f *[factsLen]byte) { f[factKind] = byte(directory) + 1 },
		"no kind":      func(f *[factsLen]byte) { f[factKind] = 0 },
		"flag":         func(f *[factsLen]byte) { f[factFlags] |= 1 << 7 },
		"content type": func(f *[factsLen]byte) { f[factType] = byte(len(contentTypes)) },
	} {
		r := Record{Kind: Object}
		r.Name.Bucket, r.Name.Key = "bkt", "key"
		d := NewDraft(r, make([]byte, Block))
		change(&d.facts)
		d.place(key, 1024, 0)
		if _, err := decodeHead(d.head, key, 1024); err == nil || err == errNoRecord {
			t.Errorf("%s: %v", name, err)
		}
	}
}
