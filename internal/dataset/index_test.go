package dataset_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/dataset"
	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// tarOf makes a tar of a tree's files, in the order of their names.
func tarOf(t testing.TB, tree content, more ...tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		must(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(tree[name])), Mode: 0o600}))
		_, err := w.Write([]byte(tree[name]))
		must(t, err)
	}
	for _, head := range more {
		must(t, w.WriteHeader(&head))
	}
	must(t, w.Close())
	return b.String()
}

// webDataset makes tars of random samples, and returns them and all samples.
func webDataset(t *testing.T, shards int) (tars, all content) {
	r := seeded(t)
	tars, all = content{}, content{}
	for i := range shards {
		tree := content{}
		for j := range 20 {
			key := fmt.Sprintf("%02d/%04d", i, j)
			tree[key+".jpg"] = noise[r.IntN(1000) : 2000+r.IntN(100000)]
			tree[key+".cls"] = fmt.Sprint(r.IntN(10))
			if j%3 == 0 {
				tree[key+".Seg.PNG"] = noise[:r.IntN(100)+1]
			}
		}
		tars[fmt.Sprintf("train/%06d.tar", i)] = tarOf(t, tree)
		for name, data := range tree {
			key, field, _ := dataset.SplitMember(name)
			all[key+"."+field] = data
		}
	}
	return tars, all
}

// TestTarsAreTakenAsTheyAre: in a directory they are only indexed.
func TestTarsAreTakenAsTheyAre(t *testing.T) {
	m := newMaker(t)
	tars, all := webDataset(t, 5)
	tars.write(t, m.tree)
	settle()
	report := m.mustCreate(dataset.Options{})
	v := m.holds(1, all)
	if report.Samples != 100 || v.Shards() != 5 || report.Shards != 0 {
		t.Errorf("%+v", report)
	}
	for i := range v.Shards() {
		s, err := v.Shard(i)
		must(t, err)
		if s.Name != filepath.Join(m.tree, fmt.Sprintf("train/%06d.tar", i)) || s.Format != manifest.Tar {
			t.Errorf("shard %d is %+v", i, s)
		}
	}
	same(t, readTree(t, m.tree), tars)
	// The order is that of the tars.
	if key, err := v.Key(21); err != nil || key != "01/0001" {
		t.Errorf("sample 21 is %q, %v", key, err)
	}
	// Again: nothing, and nothing is left of it. One more, one that has changed, one that is gone.
	if report := m.mustCreate(dataset.Options{}); report.Published {
		t.Errorf("%+v", report)
	}
	if entries, err := os.ReadDir(m.to); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	content{"train/000005.tar": tarOf(t, content{"x.jpg": "new"}), "train/000002.tar": tarOf(t, content{"02/0000.jpg": "changed", "02/0001.cls": all["02/0001.cls"], "02/0001.jpg": all["02/0001.jpg"]})}.write(t, m.tree)
	must(t, os.Remove(filepath.Join(m.tree, "train/000004.tar")))
	for name := range all {
		if strings.HasPrefix(name, "04/") || strings.HasPrefix(name, "02/") && !strings.HasPrefix(name, "02/0001") {
			delete(all, name)
		}
	}
	all["x.jpg"], all["02/0000.jpg"] = "new", "changed"
	report = m.mustCreate(dataset.Options{})
	if report.Added != 1 || report.Changed != 1 || report.Removed != 38 || report.Kept != 61 || report.Samples != 63 {
		t.Errorf("%+v", report)
	}
	m.holds(2, all)
	// A dataset whose tars lie in its own directory can be moved.
	inside := newMaker(t)
	inside.to = inside.tree
	tars.write(t, filepath.Join(inside.tree, "tars"))
	inside.origin = func() dataset.Origin { return dataset.Tree(filepath.Join(inside.tree, "tars")) }
	inside.mustCreate(dataset.Options{})
	moved := filepath.Join(t.TempDir(), "moved")
	must(t, os.Rename(inside.tree, moved))
	inside.to = moved
	if s, err := inside.open(1).Shard(0); err != nil || s.Name != "tars/train/000000.tar" {
		t.Errorf("%+v, %v", s, err)
	}
	if wrong := inside.verify(inside.open(1)); len(wrong) > 0 {
		t.Error(wrong)
	}
	// Also if they lie at its top.
	inside.to = filepath.Join(moved, "tars/train")
	inside.origin = func() dataset.Origin { return dataset.Tree(inside.to) }
	inside.mustCreate(dataset.Options{})
	settle()
	if report := inside.mustCreate(dataset.Options{}); report.Published || inside.open(0).Shards() != 5 {
		t.Errorf("%+v", report)
	}
	inside.to = moved
	must(t, dataset.Remove(t.Context(), inside.place(), 1))
	if _, err := os.Stat(filepath.Join(moved, "tars/train/000000.tar")); err != nil {
		t.Errorf("removing a version has removed a tar that it found: %v", err)
	}
}

// TestTarsWithColumns.
func TestTarsWithColumns(t *testing.T) {
	m := newMaker(t)
	tars, all := webDataset(t, 3)
	tars.write(t, m.tree)
	m.mustCreate(dataset.Options{Columns: []manifest.Column{{Name: "cls", Type: manifest.Int}}})
	v := m.holds(1, all)
	if len(v.Fields()) != 2 || len(v.Columns()) != 1 {
		t.Errorf("%v %v", v.Fields(), v.Columns())
	}
	m.tree, m.to = t.TempDir(), t.TempDir()
	content{"a.tar": tarOf(t, content{"cats/1.jpg": "x", "dogs/1.jpg": "y"}), "b.tar": tarOf(t, content{"ants/1.jpg": "z", "top.jpg": "t", "cats/2.cls": "5"})}.write(t, m.tree)
	m.mustCreate(dataset.Options{ClassFromFolder: true, Skip: true})
	v = m.open(1)
	if classes, err := v.Classes(0); err != nil || !slices.Equal(classes, []string{"ants", "cats", "dogs"}) || v.Len() != 3 {
		t.Errorf("%q, %v", classes, err)
	}
	if want := []string{"b.tar: cats/2.cls: the class comes from the folder, and cannot be a file too", "b.tar: top: it lies in no folder that could be its class"}; !slices.Equal(m.problems, want) {
		t.Errorf("%q", m.problems)
	}
}

// TestHostileTars: what must not be part of a dataset is named, and nothing of it
// gets in.
func TestHostileTars(t *testing.T) {
	m := newMaker(t)
	good := content{"good/1.jpg": "one", "good/1.txt": "text", "good/2.jpg": "two"}
	bad := content{
		"links.tar": tarOf(t, content{"l/1.jpg": "x"}, tar.Header{Name: "l/1.txt", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
			tar.Header{Name: "l/2.jpg", Typeflag: tar.TypeLink, Linkname: "l/1.jpg"}),
		"names.tar": tarOf(t, content{"../up.jpg": "x", "/abs.jpg": "x", "README": "x", "e/1.j~g": "x", "e/2.jpg": ""}),
		"twice.tar": tarOf(t, content{"good/1.jpg": "another"}),
		"cut.tar":   tarOf(t, content{"c.jpg": strings.Repeat("x", 5000)})[:3000],
		"no.tar":    strings.Repeat("this is no tar. ", 100),
	}
	content{"good.tar": tarOf(t, good)}.write(t, m.tree)
	bad.write(t, m.tree)
	report, err := m.create(dataset.Options{})
	if !object.Is(err, object.Invalid) || report.Published {
		t.Errorf("%+v, %v", report, err)
	}
	report = m.mustCreate(dataset.Options{Skip: true})
	m.holds(1, good)
	want := []string{
		"cut.tar: ", "links.tar: l/1.txt: ", "links.tar: l/2.jpg: ", "names.tar: ../up.jpg: ", "names.tar: /abs.jpg: ", `names.tar: e/1.j~g: "j~g" cannot be a field`,
		"names.tar: e/2.jpg: it is empty", "no.tar: ", "skipped names.tar: README: its name has no field", "twice.tar: good/1: the sample is a duplicate: " + m.tree + "/good.tar has one",
	}
	if len(m.problems) != len(want) {
		t.Fatalf("%d problems:\n%s", len(m.problems), strings.Join(m.problems, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(m.problems[i], want[i]) {
			t.Errorf("%s\nand not %s", m.problems[i], want[i])
		}
	}
	// Other files beside tars are a question.
	content{"README.md": "x"}.write(t, m.tree)
	if _, err := m.create(dataset.Options{}); !object.Is(err, object.Invalid) || !strings.Contains(err.Error(), "--input tar") {
		t.Errorf("%v", err)
	}
}

// TestTarsInBuckets: objects are indexed where they are; what readers of the place
// could not reach is copied.
func TestTarsInBuckets(t *testing.T) {
	r := newRig(t)
	tars, all := webDataset(t, 4)
	for path, data := range tars {
		_, err := r.client.Put(t.Context(), penstock.Name{Bucket: testBucket, Key: "tars/" + path}, strings.NewReader(data), penstock.PutOptions{})
		must(t, err)
	}
	r.origin = func() dataset.Origin { return dataset.Objects(r.client, testBucket, "tars/") }
	r.mustCreate(dataset.Options{})
	v := r.holds(1, all)
	if s, err := v.Shard(2); err != nil || s.Name != "/"+testBucket+"/tars/train/000002.tar" || s.Tag == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if report := r.mustCreate(dataset.Options{}); report.Published {
		t.Errorf("%+v", report)
	}
	must(t, dataset.Remove(t.Context(), r.place(), 1))
	if keys := r.keys("tars/"); len(keys) != 4 {
		t.Errorf("tars that are left: %v", keys)
	}
	// To a directory, and from there to the bucket.
	dir := newMaker(t)
	dir.origin = r.origin
	dir.mustCreate(dataset.Options{})
	if s, err := dir.holds(1, all).Shard(2); err != nil || s.Name != "000001/000002.tar" {
		t.Errorf("%+v, %v", s, err)
	}
	tars.write(t, r.tree)
	r.origin = func() dataset.Origin { return dataset.Tree(r.tree) }
	r.mustCreate(dataset.Options{})
	if s, err := r.holds(2, all).Shard(2); err != nil || s.Name != "000002/000002.tar" {
		t.Errorf("%+v, %v", s, err)
	}
	if report := r.mustCreate(dataset.Options{}); report.Published {
		t.Errorf("%+v", report)
	}
	content{"train/000002.tar": tarOf(t, content{"x.jpg": "new"})}.write(t, r.tree)
	if report := r.mustCreate(dataset.Options{}); report.Added != 1 || report.Removed != 20 || report.Kept != 60 || len(r.keys("set/000003/")) != 2 {
		t.Errorf("%+v, %v", report, r.keys("set/000003/"))
	}
	data, err := r.client.Get(t.Context(), penstock.Name{Bucket: testBucket, Key: "set/000002/000002.tar"})
	if err != nil || string(data) != tars["train/000002.tar"] {
		t.Errorf("the copy has %d bytes, %v", len(data), err)
	}
}

// TestRecords: tokens, records of other lengths, TFRecords.
func TestRecords(t *testing.T) {
	m := newMaker(t)
	content{"train.bin": noise[:10*8192+100], "sub/valid.bin": noise[100 : 100+2*8192]}.write(t, m.tree)
	report := m.mustCreate(dataset.Options{Input: dataset.Flat, Record: dataset.Record{Length: 8192, Field: "tokens.uint16"}, ChunkSize: 64 << 10})
	want := content{}
	for i := range 10 {
		want[fmt.Sprintf("train.bin/%08d.tokens.uint16", i)] = noise[i*8192 : (i+1)*8192]
	}
	for i := range 2 {
		want[fmt.Sprintf("sub/valid.bin/%08d.tokens.uint16", i)] = noise[100+i*8192 : 100+(i+1)*8192]
	}
	v := m.holds(1, want)
	if report.Samples != 12 || len(m.problems) != 1 || !strings.HasPrefix(m.problems[0], "skipped train.bin: the last 100 bytes: ") || v.Info().ChunkSamples != 8 {
		t.Errorf("%+v %q", report, m.problems)
	}
	if s, err := v.Shard(0); err != nil || s.Format != manifest.Records {
		t.Errorf("%+v, %v", s, err)
	}
	if report := m.mustCreate(dataset.Options{Input: dataset.Flat, Record: dataset.Record{Length: 8192, Field: "tokens.uint16"}}); report.Published {
		t.Errorf("%+v", report)
	}

	prefixed := newMaker(t)
	var file []byte
	want = content{}
	for i := range 50 {
		data := noise[i*100 : i*100+i*7+1]
		file = append(binary.LittleEndian.AppendUint32(file, uint32(len(data))), data...)
		want[fmt.Sprintf("a.rec/%08d.bin", i)] = data
	}
	content{"a.rec": string(file)}.write(t, prefixed.tree)
	prefixed.mustCreate(dataset.Options{Input: dataset.Flat, Record: dataset.Record{Prefix: 4}})
	prefixed.holds(1, want)

	tf := newMaker(t)
	var records []byte
	want = content{}
	for i := range 50 {
		data := noise[i*100 : i*100+i*7+1]
		records = tfRecord(records, []byte(data))
		want[fmt.Sprintf("train.tfrecord-00000-of-00001/%08d.tfrecord", i)] = data
	}
	content{"train.tfrecord-00000-of-00001": string(records)}.write(t, tf.tree)
	tf.mustCreate(dataset.Options{})
	v = tf.holds(1, want)
	if s, err := v.Shard(0); err != nil || s.Format != manifest.TFRecord {
		t.Errorf("%+v, %v", s, err)
	}
	records[len(records)-10] ^= 1
	content{"train.tfrecord-00000-of-00001": string(records)}.write(t, tf.tree)
	if _, err := tf.create(dataset.Options{}); !object.Is(err, object.Invalid) || len(tf.problems) != 1 {
		t.Errorf("a damaged one: %v, %q", err, tf.problems)
	}
}

// tfRecord appends a record as TensorFlow writes it.
func tfRecord(b, data []byte) []byte {
	masked := func(data []byte) uint32 {
		crc := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		return (crc>>15 | crc<<17) + 0xa282ead8
	}
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(append(b, length...), masked(length))
	return binary.LittleEndian.AppendUint32(append(b, data...), masked(data))
}
