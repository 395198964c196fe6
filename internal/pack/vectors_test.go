package pack_test

import (
	"encoding/hex"
	"strings"

	"penstock.dev/penstock/internal/pack"
)

// goldenVectors describes the golden packs. It is read only to write them anew;
// the files in testdata are what counts.
func goldenVectors() map[string]*vector {
	const now = 1_700_000_000_123_456_789
	base := func(about string, id uint64) *vector {
		return &vector{About: about, Secret: strings.Repeat("0123456789abcdef", 4), Disk: "11f0c6a0-golden", Pack: id, Clock: now, Step: 2048}
	}
	object := func(key string, payload string) vectorRecord {
		return vectorRecord{Kind: pack.Object, Bucket: "bucket", Key: key, Map: 1, Modified: now, Payload: []byte(payload)}
	}
	number := func(v *vector) *vector {
		for i := range v.Records {
			v.Records[i].Counter += uint64(i + 1)
		}
		return v
	}

	ordinary := base("ordinary names, sealed; some records were synced together", 1)
	ordinary.Sealed = true
	ordinary.Records = []vectorRecord{
		object("empty", ""),
		object("dir/one-block.txt", strings.Repeat("x", 512)),
		object("dir/one-more.txt", strings.Repeat("y", 513)),
		object("typed.jpg", "\xff\xd8\xff"),
		object("md5.bin", "hello"),
		object(strings.Repeat("p", 120)+"/prefix", "in name and prefix"),
		object("empty", "overwritten"),
		{Kind: pack.Tombstone, Bucket: "bucket", Key: "dir/one-block.txt", Map: 2, Modified: now + 1},
	}
	ordinary.Records[2].Synced = true
	ordinary.Records[3].ContentType = "image/jpeg"
	ordinary.Records[4].ETag, ordinary.Records[4].ContentType = "5d41402abc4b2a76b9719d911017c592", "application/octet-stream"
	ordinary.Records[6].Synced = true

	awkward := base("names that tar cannot show, and all that needs extended fields; sealed", 0xfedcba9876543210)
	awkward.Previous, awkward.End, awkward.Moved, awkward.Sealed = 0x0f, 4096, true, true
	awkward.Records = []vectorRecord{
		object("../up", "escaped"),
		object("/absolute//path/", "escaped"),
		object("control\x00\n\x7f", "escaped"),
		object("日本語/ü.png", "long way for a short name"),
		object(strings.Repeat("k", 200)+"/"+strings.Repeat("l", 120), "too long for ustar"),
		object(strings.Repeat("k", 300), "a component too long for a file system"),
		object("hidden", "another key needs this as a directory"),
		object("hidden/below", "that one"),
		object("extended", "everything"),
		object("before-1970", ""),
		object("large", "block checksums"),
		object("../large", "block checksums"),
		{Kind: pack.Tombstone, Bucket: "bucket", Key: "../up", Map: 0xffffffff, Counter: 1 << 63, Modified: now},
		{Kind: pack.Marker, Bucket: "bucket", Key: "marker", Map: 1, Modified: now},
	}
	awkward.Records[6].Hidden = true
	x := &awkward.Records[8]
	x.ContentType, x.ETag = "text/x-unheard-of; charset=utf-8", "d41d8cd98f00b204e9800998ecf8427e-7"
	x.Metadata = map[string]string{
		hex.EncodeToString([]byte("author")):   hex.EncodeToString([]byte("Zoë & sons=co")),
		hex.EncodeToString([]byte("latin-1")):  hex.EncodeToString([]byte("caf\xe9")),
		hex.EncodeToString([]byte("no-value")): "",
	}
	awkward.Records[9].Modified = -1
	for i := 10; i < 12; i++ {
		x := &awkward.Records[i]
		x.Size, x.CRC32 = 5<<40, 0xcafe
		x.Extents = [][3]uint64{{1, 0, 5 << 40}, {1<<64 - 1, 512, 1}}
	}

	unsealed := base("being written: records behind the last sync, and room reserved behind them", 2)
	unsealed.Previous, unsealed.End = 1, 8192
	unsealed.Records = []vectorRecord{object("a", "synced"), object("b", "synced"), object("c", "not synced"), object("d", "not synced")}
	unsealed.Records[1].Synced = true

	versions := base("versions with IDs, marks of deletions, and what lies beside a bucket; sealed", 3)
	versions.Sealed = true
	versions.Records = []vectorRecord{
		object("null", "written while no versions were kept"),
		object("dir/key", "first version"),
		object("dir/key", "second version"),
		{Kind: pack.Marker, Bucket: "bucket", Key: "dir/key", Map: 1, Modified: now},
		{Kind: pack.Tombstone, Bucket: "bucket", Key: "dir/key", Map: 1, Modified: now},
		object("large", "block checksums"),
		object("../up", "escaped"),
		{Kind: pack.Marker, Bucket: "bucket", Key: "../up", Map: 1, Modified: now},
		object(strings.Repeat("p", 60)+"/"+strings.Repeat("n", 90), "in name and prefix"),
		object("日本語", "extended"),
		{Kind: pack.Marker, Bucket: "bucket", Key: "null", Map: 1, Modified: now},
		{Kind: pack.Object, Bucket: "bucket~uploads", Key: "part/00001", Map: 1, Modified: now, Payload: []byte("a part")},
		object("last", "the greatest ID there can be"),
	}
	for i := range number(versions).Records {
		x := &versions.Records[i]
		if x.Key != "null" && x.Bucket == "bucket" {
			x.ID = &vectorID{x.Map, x.Counter}
		}
	}
	versions.Records[2].ETag, versions.Records[2].ContentType = "5d41402abc4b2a76b9719d911017c592", "image/jpeg"
	versions.Records[4].ID = versions.Records[1].ID // the first version is gone
	x = &versions.Records[5]
	x.Size, x.CRC32, x.ETag, x.Extents = 10<<20+1, 0xcafe, "d41d8cd98f00b204e9800998ecf8427e-2", [][3]uint64{{1, 0, 10 << 20}, {2, 0, 1}}
	last := &versions.Records[len(versions.Records)-1]
	last.Map, last.Counter = 0xffffffff, 0xffffffffffffffff
	last.ID = &vectorID{last.Map, last.Counter}

	return map[string]*vector{"ordinary": number(ordinary), "awkward": number(awkward), "unsealed": number(unsealed), "versions": versions}
}
