package penstock_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock"
)

// TestTimeInFull shows that an object has the same time, to the nanosecond, from
// wherever it is told, and that seconds serve where there is nothing better.
func TestTimeInFull(t *testing.T) {
	client, ctx := connect(t), t.Context()
	if _, err := client.CreateBucket(ctx, "photos", penstock.BucketOptions{}); err != nil {
		t.Fatal(err)
	}
	put, err := client.Put(ctx, name, strings.NewReader("meow"), penstock.PutOptions{})
	if err != nil || put.Modified.Nanosecond() == 0 {
		t.Fatalf("%v, %v", put.Modified, err)
	}
	stat, err := client.Stat(ctx, name)
	if err != nil || !stat.Modified.Equal(put.Modified) {
		t.Errorf("stat says %v, put said %v (%v)", stat.Modified, put.Modified, err)
	}
	r, err := client.Open(ctx, name, penstock.Range{Offset: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !r.Info().Modified.Equal(put.Modified) {
		t.Errorf("open says %v, put said %v", r.Info().Modified, put.Modified)
	}
	for entry, err := range client.List(ctx, "photos", penstock.ListOptions{}) {
		if err != nil || !entry.Info.Modified.Equal(put.Modified) {
			t.Errorf("the listing says %v, put said %v (%v)", entry.Info.Modified, put.Modified, err)
		}
	}
	old, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		describe(w.Header(), nil)
		w.Header().Set("Content-Length", "0")
	})
	if info, err := old.Stat(ctx, name); err != nil || !info.Modified.Equal(time.Date(2026, 11, 15, 1, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v", info.Modified, err)
	}
	wrong, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		describe(w.Header(), nil)
		w.Header().Set("Content-Length", "0")
		w.Header().Set("X-Penstock-Modified", "yesterday")
	})
	_, err = wrong.Stat(ctx, name)
	wantKind(t, err, penstock.Internal)
}

// TestHeadSaysWhy shows that the reason reaches the caller although the answer has
// no body.
func TestHeadSaysWhy(t *testing.T) {
	for said, want := range map[string]struct {
		kind  penstock.Kind
		words string
	}{
		"Corrupt: photos/cat.jpg is damaged: block 7": {penstock.Corrupt, "photos/cat.jpg is damaged: block 7 ("},
		"NotFound: bucket photos does not exist":      {penstock.NotFound, "bucket photos does not exist ("},
		"NotFound":                                    {penstock.NotFound, "photos/cat.jpg does not exist ("},
		"Corrupt":                                     {penstock.Corrupt, "photos/cat.jpg: internal server error ("},
		"":                                            {penstock.Internal, "photos/cat.jpg: internal server error ("},
	} {
		client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
			if said != "" {
				w.Header().Set("X-Penstock-Error", said)
			}
			w.WriteHeader(500)
		})
		_, err := client.Stat(t.Context(), name)
		wantKind(t, err, want.kind)
		if !strings.HasPrefix(err.Error(), want.words) {
			t.Errorf("%q becomes %q", said, err)
		}
	}
	client := connect(t)
	_, err := client.Stat(t.Context(), name)
	wantKind(t, err, penstock.NotFound)
	if !strings.HasPrefix(err.Error(), "bucket photos does not exist") {
		t.Errorf("a bucket that is not there: %v", err)
	}
}

// TestCopyOrder shows that Copy takes the destination first, like everything else
// in Penstock that copies.
func TestCopyOrder(t *testing.T) {
	var path, source string
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		path, source = r.URL.Path, r.Header.Get("X-Penstock-Copy-Source")
		io.WriteString(w, `{"bucket":"photos","key":"dst","size":0,"version":"1.1","crc32":"00000000"}`)
	})
	dst, src := penstock.Name{Bucket: "photos", Key: "dst"}, penstock.Name{Bucket: "photos", Key: "src"}
	if _, err := client.Copy(t.Context(), dst, src, penstock.Condition{}); err != nil {
		t.Fatal(err)
	}
	if path != "/v1/objects/photos/dst" || source != "/photos/src" {
		t.Errorf("%s is copied to %s", source, path)
	}
}
