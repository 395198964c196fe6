package wire_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

// source returns a source of randomness whose seed stands in the test's output.
func source(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("PENSTOCK_TEST_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("PENSTOCK_TEST_SEED=%d repeats this", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantKind fails unless err is of the given kind.
func wantKind(t testing.TB, err error, kind object.Kind, what string, args ...any) {
	t.Helper()
	if !object.Is(err, kind) {
		t.Fatalf("%s: %v, want %v", fmt.Sprintf(what, args...), err, kind)
	}
}

func randomText(r *rand.Rand, longest int) string {
	const letters = "abcdefgh/0123-._{}\"\\\n\x00é漢😀"
	runes := []rune(letters)
	var out strings.Builder
	for want := 1 + r.IntN(longest); ; {
		c := string(runes[r.IntN(len(runes))])
		if out.Len()+len(c) > want {
			return cmp.Or(out.String(), "k")
		}
		out.WriteString(c)
	}
}

func randomRefs(r *rand.Rand, count int) []object.Ref {
	refs := make([]object.Ref, count)
	for i := range refs {
		refs[i].Name.Key = randomText(r, 40)
		if r.IntN(50) == 0 {
			refs[i].Name.Key = strings.Repeat("k", object.MaxKey)
		}
		if r.IntN(3) == 0 {
			refs[i].Member = randomText(r, 60)
		}
		if r.IntN(3) == 0 {
			refs[i].Range = object.Range{Offset: int64(r.Uint64()), Length: r.Int64() >> r.IntN(63)}
		}
		if r.IntN(3) == 0 {
			refs[i].Name.Bucket = []string{"bucket", "another", "third-one"}[r.IntN(3)]
		}
		if r.IntN(3) == 0 {
			refs[i].CRC32, refs[i].Checked = r.Uint32()>>r.IntN(33), true
		}
	}
	return refs
}

// settled is refs as they come out: each with its bucket.
func settled(refs []object.Ref, bucket string) []object.Ref {
	out := slices.Clone(refs)
	for i := range out {
		out[i].Name.Bucket = cmp.Or(out[i].Name.Bucket, bucket)
	}
	return out
}

type refJSON struct {
	Bucket string `json:"bucket,omitempty"`
	Key    string `json:"key"`
	Member string `json:"member,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Length int64  `json:"length,omitempty"`
	CRC32  string `json:"crc32,omitempty"` // 8 hexadecimal digits
}

func newRefJSON(r object.Ref) refJSON {
	out := refJSON{Bucket: r.Name.Bucket, Key: r.Name.Key, Member: r.Member, Offset: r.Range.Offset, Length: r.Range.Length}
	if r.Checked {
		out.CRC32 = fmt.Sprintf("%08x", r.CRC32)
	}
	return out
}

type refsJSON struct {
	Bucket string    `json:"bucket,omitempty"`
	Refs   []refJSON `json:"refs"`
}

func marshalRefs(t testing.TB, bucket string, refs []object.Ref) []byte {
	doc := refsJSON{Bucket: bucket, Refs: []refJSON{}}
	for _, r := range refs {
		doc.Refs = append(doc.Refs, newRefJSON(r))
	}
	data, err := json.Marshal(doc)
	must(t, err)
	return data
}

func TestRefsComeOutAsTheyWentIn(t *testing.T) {
	r := source(t)
	for range 200 {
		refs := randomRefs(r, r.IntN(60))
		bucket := "bucket"
		if r.IntN(4) == 0 {
			refs, bucket = settled(refs, bucket), ""
		}
		want := settled(refs, bucket)
		data, err := wire.AppendRefs([]byte("before"), bucket, refs)
		must(t, err)
		got, err := wire.ParseRefs(data[6:])
		if must(t, err); !slices.Equal(got, want) {
			t.Fatalf("%+v\nwant\n%+v", got, want)
		}
		clear(data) // nothing may be kept of it
		if !slices.Equal(got, want) {
			t.Fatal("the references changed with the request")
		}
		data = marshalRefs(t, bucket, refs)
		got, err = wire.ParseRefsJSON(data)
		if must(t, err); !slices.Equal(got, want) {
			t.Fatalf("%s gives\n%+v\nwant\n%+v", data, got, want)
		}
	}
}

func TestAsManyRefsAsAllowed(t *testing.T) {
	refs := make([]object.Ref, wire.MaxRefs+1)
	for i := range refs {
		refs[i].Name.Key = "k"
	}
	_, err := wire.AppendRefs(nil, "bucket", refs)
	wantKind(t, err, object.Invalid, "one too many")
	_, err = wire.ParseRefsJSON(marshalRefs(t, "bucket", refs))
	wantKind(t, err, object.Invalid, "one too many as JSON")
	data, err := wire.AppendRefs(nil, "bucket", refs[:wire.MaxRefs])
	must(t, err)
	got, err := wire.ParseRefs(data)
	if must(t, err); len(got) != wire.MaxRefs {
		t.Fatal(len(got))
	}
	got, err = wire.ParseRefsJSON(marshalRefs(t, "bucket", refs[:wire.MaxRefs]))
	if must(t, err); len(got) != wire.MaxRefs {
		t.Fatal(len(got))
	}
}

// TestBadRefs: both sides, and both forms, refuse the same.
func TestBadRefs(t *testing.T) {
	bad := map[string]object.Ref{
		"no key":          {},
		"long key":        {Name: object.Name{Key: strings.Repeat("k", object.MaxKey+1)}},
		"key no UTF-8":    {Name: object.Name{Key: "\xff"}},
		"bad bucket":      {Name: object.Name{Key: "k", Bucket: "Bucket"}},
		"long member":     {Name: object.Name{Key: "k"}, Member: strings.Repeat("m", math.MaxUint16+1)},
		"member no UTF-8": {Name: object.Name{Key: "k"}, Member: "\xff"},
		"negative length": {Name: object.Name{Key: "k"}, Range: object.Range{Length: -1}},
	}
	for what, ref := range bad {
		refs := []object.Ref{{Name: object.Name{Key: "good"}}, ref}
		b, err := wire.AppendRefs([]byte("before"), "bucket", refs)
		wantKind(t, err, object.Invalid, "%s", what)
		if string(b) != "before" || !strings.Contains(err.Error(), "reference 1") {
			t.Errorf("%s: %q, %v", what, b, err)
		}
		if strings.Contains(what, "UTF-8") {
			continue // Marshal would mend it
		}
		_, err = wire.ParseRefsJSON(marshalRefs(t, "bucket", refs))
		wantKind(t, err, object.Invalid, "%s as JSON", what)
		if !strings.Contains(err.Error(), "reference 1") {
			t.Errorf("%s as JSON: %v", what, err)
		}
	}
	for _, known := range []object.Ref{{Of: object.Version{Map: 1}}, {CRC32: 1}} { // it would be ignored
		known.Name.Key = "k"
		_, err := wire.AppendRefs(nil, "bucket", []object.Ref{known})
		wantKind(t, err, object.Invalid, "%+v", known)
	}
	for _, bucket := range []string{"", "Bucket"} {
		_, err := wire.AppendRefs(nil, bucket, []object.Ref{{Name: object.Name{Key: "k"}}})
		wantKind(t, err, object.Invalid, "bucket %q", bucket)
	}
}

func TestBadRefsBytes(t *testing.T) {
	ref := object.Ref{Name: object.Name{Key: "key"}, Member: "m", Range: object.Range{Offset: -1}, CRC32: 0x89abcdef, Checked: true}
	good, err := wire.AppendRefs(nil, "bucket", []object.Ref{ref})
	must(t, err)
	change := func(at int, to ...byte) []byte {
		b := slices.Clone(good)
		copy(b[at:], to)
		return b
	}
	for what, data := range map[string][]byte{
		"magic":           change(7, '2'),
		"count too large": change(8, 0xff, 0xff, 0xff, 0xff),
		"count one more":  change(8, 2),
		"count one less":  change(8, 0),
		"bucket's length": change(12, 0xff, 0xff),
		"flags":           change(20, 16),
		"no such flag":    change(20, 0),
		"key's length":    change(21, 0xff, 0xff),
		"empty key":       change(21, 0, 0),
		"key no UTF-8":    change(23, 0xff),
		"empty member":    change(26, 0),
		"negative length": change(len(good)-5, 0x80),
		"trailing byte":   append(slices.Clone(good), 0),
	} {
		_, err := wire.ParseRefs(data)
		wantKind(t, err, object.Invalid, "%s", what)
	}
	for cut := range good {
		_, err := wire.ParseRefs(good[:cut])
		wantKind(t, err, object.Invalid, "cut at %d", cut)
	}
}

func TestJSONThatIsRefused(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[]`, `{}`, `{"bucket":"bucket"}`, `{"refs":null}`, `{"refs":{}}`, `{"refs":[],}`, `{"refs":[]} x`, `{"refs":[]}{"refs":[]}`,
		`{"refs":[],"refs":[]}`, `{"bucket":"bucket","refs":[],"bucket":"bucket"}`, `{"refs":[],"more":1}`, `{"Refs":[]}`, `{"bucket":"","refs":[]}`,
		"{\"refs\":[]}\x00", "\ufeff{\"refs\":[]}", `{"refs":[{"key":"k"}]}`, `{"bucket":"Bucket","refs":[]}`,
	} {
		_, err := wire.ParseRefsJSON([]byte(text))
		wantKind(t, err, object.Invalid, "%s", text)
	}
	for _, ref := range []string{
		``, `null`, `1`, `{}`, `{"key":null}`, `{"key":1}`, `{"key":""}`, `{"key":"k","member":""}`, `{"key":"k","bucket":""}`,
		`{"key":"k","key":"k"}`, `{"key":"k","offset":0,"offset":0}`, `{"KEY":"k"}`, `{"key":"k",}`, `{"key":"k"},`, `{"key":"k"`, `{"key" "k"}`,
		`{"key":"k","offset":1.0}`, `{"key":"k","offset":1e3}`, `{"key":"k","offset":01}`, `{"key":"k","offset":-}`, `{"key":"k","offset":+1}`,
		`{"key":"k","offset":"1"}`, `{"key":"k","offset":9223372036854775808}`, `{"key":"k","offset":-9223372036854775809}`, `{"key":"k","length":-1}`,
		`{"key":"\x"}`, `{"key":"\u12"}`, `{"key":"\u12g4"}`, `{"key":"\ud800"}`, `{"key":"\ud800\u0041"}`, `{"key":"\udc00\ud800"}`, `{"key":"\`,
		`{"key":"k","crc32":"89abcdef","crc32":"89abcdef"}`, `{"key":"k","crc32":""}`, `{"key":"k","crc32":"89abcde"}`, `{"key":"k","crc32":"89abcdef0"}`,
		`{"key":"k","crc32":"0x9abcde"}`, `{"key":"k","crc32":"+9abcdef"}`, `{"key":"k","crc32":"8_abcdef"}`, `{"key":"k","crc32":"89abcdeg"}`,
		`{"key":"k","crc32":1}`, `{"key":"k","crc32":null}`, `{"key":"k","CRC32":"89abcdef"}`,
		"{\"key\":\"a\nb\"}", "{\"key\":\"\\n\n\"}", "{\"key\":\"\xff\"}", `{"key":'k'}`, `{"key":"k" /* */}`,
	} {
		text := `{"bucket":"bucket","refs":[` + ref + `]}`
		if ref == "" {
			text = `{"bucket":"bucket","refs":[,]}`
		}
		_, err := wire.ParseRefsJSON([]byte(text))
		wantKind(t, err, object.Invalid, "%s", text)
	}
	whole := ` {"refs": [{"key":"\u006b\ud83d\ude00\n", "offset":-12, "crc32":"89ABcde\u0066"}], "bucket" : "bucket"}`
	got, err := wire.ParseRefsJSON([]byte(whole + "\n"))
	want := object.Ref{Name: object.Name{Bucket: "bucket", Key: "k😀\n"}, Range: object.Range{Offset: -12}, CRC32: 0x89abcdef, Checked: true}
	if must(t, err); len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
	for cut := range whole {
		_, err := wire.ParseRefsJSON([]byte(whole[:cut]))
		wantKind(t, err, object.Invalid, "cut at %d", cut)
	}
}
