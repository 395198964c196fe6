package penstock_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"penstock.dev/penstock"
)

func TestBuckets(t *testing.T) {
	client, ctx := connect(t), t.Context()
	quota, always := int64(100), "always"
	made, err := client.CreateBucket(ctx, "photos", penstock.BucketOptions{Quota: &quota})
	if err != nil || made.Name != "photos" || made.Quota != quota || made.Created.IsZero() {
		t.Fatalf("%+v, %v", made, err)
	}
	_, err = client.CreateBucket(ctx, "photos", penstock.BucketOptions{})
	wantKind(t, err, penstock.Exists)
	changed, err := client.UpdateBucket(ctx, "photos", penstock.BucketOptions{Verify: &always})
	if err != nil || changed.Verify != always || changed.Quota != quota {
		t.Fatalf("%+v, %v", changed, err)
	}
	if _, err := client.Put(ctx, name, strings.NewReader("meow"), penstock.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = client.Put(ctx, name, strings.NewReader(strings.Repeat("x", 101)), penstock.PutOptions{})
	wantKind(t, err, penstock.Denied)
	all, err := client.Buckets(ctx)
	if err != nil || len(all) != 1 || all[0].Objects != 1 || all[0].Bytes != 4 {
		t.Fatalf("%+v, %v", all, err)
	}
	wantKind(t, client.DeleteBucket(ctx, "photos"), penstock.Exists)
	if err := client.Delete(ctx, name, penstock.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := client.DeleteBucket(ctx, "photos"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, client.DeleteBucket(ctx, "photos"), penstock.NotFound)
	_, err = client.Bucket(ctx, "photos")
	wantKind(t, err, penstock.NotFound)
	_, err = client.Put(ctx, name, strings.NewReader("x"), penstock.PutOptions{})
	wantKind(t, err, penstock.NotFound)
	_, err = client.Bucket(ctx, "../etc")
	wantKind(t, err, penstock.Invalid)
}

func TestCopy(t *testing.T) {
	client, ctx := connect(t), t.Context()
	for _, bucket := range []string{"photos", "other"} {
		if _, err := client.CreateBucket(ctx, bucket, penstock.BucketOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	from, to := penstock.Name{Bucket: "photos", Key: "a/../b %2F?"}, penstock.Name{Bucket: "other", Key: "copy"}
	_, err := client.Copy(ctx, to, from, penstock.Condition{})
	wantKind(t, err, penstock.NotFound)
	for _, size := range []int{0, 10, 3 << 20} {
		data := bytes.Repeat([]byte{7}, size)
		put, err := client.Put(ctx, from, bytes.NewReader(data), penstock.PutOptions{ContentType: "image/png", Metadata: map[string]string{"a": "b"}})
		if err != nil {
			t.Fatal(err)
		}
		info, err := client.Copy(ctx, to, from, penstock.Condition{})
		if err != nil || info.Name != to || info.CRC32 != put.CRC32 || info.ContentType != "image/png" || info.Metadata["a"] != "b" {
			t.Fatalf("%+v, %v", info, err)
		}
		if got, err := client.Get(ctx, to); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		_, err = client.Copy(ctx, to, from, penstock.Condition{IfNoneMatch: "*"})
		wantKind(t, err, penstock.Exists)
	}
}

// TestPages lists more than a page holds.
func TestPages(t *testing.T) {
	client, ctx := connect(t), t.Context()
	if _, err := client.CreateBucket(ctx, "many", penstock.BucketOptions{}); err != nil {
		t.Fatal(err)
	}
	const count = 2300
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < count; i += 16 {
				key := fmt.Sprintf("%05d", i)
				if _, err := client.Put(ctx, penstock.Name{Bucket: "many", Key: key}, strings.NewReader(key), penstock.PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, limit := range []int{0, 1, 999, 1000, 1001, 2299, 2300, 5000} {
		seen := 0
		for entry, err := range client.List(ctx, "many", penstock.ListOptions{Limit: limit}) {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%05d", seen); entry.Info.Name.Key != want {
				t.Fatalf("entry %d is %q", seen, entry.Info.Name.Key)
			}
			seen++
		}
		want := count
		if limit > 0 {
			want = min(limit, count)
		}
		if seen != want {
			t.Errorf("limit %d lists %d, want %d", limit, seen, want)
		}
	}
}

func TestNode(t *testing.T) {
	client, ctx := connect(t), t.Context()
	if err := client.Health(ctx); err != nil {
		t.Error(err)
	}
	if version, err := client.Version(ctx); err != nil || version == "" {
		t.Errorf("version %q, %v", version, err)
	}
	if m, err := client.Map(ctx); err != nil || m.Number != 1 || len(m.Nodes) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if disks, err := client.Disks(ctx); err != nil || len(disks) != 1 || disks[0].State != "ok" || disks[0].ID == "" || disks[0].Size == 0 {
		t.Errorf("%+v, %v", disks, err)
	}
	if _, err := client.CreateBucket(ctx, "photos", penstock.BucketOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := client.Put(ctx, penstock.Name{Bucket: "photos", Key: fmt.Sprint(i)}, strings.NewReader("x"), penstock.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var report *penstock.ScrubReport
	for event, err := range client.Scrub(ctx) {
		if err != nil || event.Finding != nil {
			t.Fatalf("%+v, %v", event.Finding, err)
		}
		report = event.Report
	}
	if report == nil || report.Records < 3 || report.Findings != 0 {
		t.Errorf("%+v", report)
	}
}

// TestScrubBreaksOff shows that a scrub without its report is a failure.
func TestScrubBreaksOff(t *testing.T) {
	for what, lines := range map[string]string{
		"nothing":  "",
		"progress": `{"progress":{"bytes":1}}` + "\n",
		"error":    `{"finding":{"kind":"record"}}` + "\n" + `{"error":{"kind":"Unavailable","message":"the disk is gone"}}` + "\n",
		"nonsense": "<html>",
	} {
		client, _ := link(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, lines) })
		var last error
		for _, err := range client.Scrub(t.Context()) {
			last = err
		}
		if last == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestReuse shows that connections serve again, also after a reader was left near
// its end, and after errors.
func TestReuse(t *testing.T) {
	var opened atomic.Int32
	content := bytes.Repeat([]byte("x"), 1000)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			stored(w, r)
		case strings.HasSuffix(r.URL.Path, "missing"):
			fail(w, 404, "NotFound", "no")
		default:
			describe(w.Header(), content)
			_, _ = w.Write(content)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client, err := penstock.New(penstock.Options{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 20 {
		if _, err := client.Get(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		r, err := client.Open(t.Context(), name, penstock.Range{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		r.Close()
		if _, err := client.Stat(t.Context(), penstock.Name{Bucket: "photos", Key: "missing"}); !penstock.Is(err, penstock.NotFound) {
			t.Fatal(err)
		}
		if _, err := client.Put(t.Context(), name, bytes.NewReader(content), penstock.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Put(t.Context(), name, io.MultiReader(bytes.NewReader(content)), penstock.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if opened.Load() != 1 {
		t.Errorf("%d connections were opened", opened.Load())
	}
}

// TestIncomplete shows that a listing that lacks a disk says so once and goes on.
func TestIncomplete(t *testing.T) {
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		key, more := "a", "true"
		if r.URL.Query().Get("after") == "a" {
			key, more = "b", "false"
		}
		fmt.Fprintf(w, `{"entries":[{"key":%q,"version":"1.1","crc32":"00000000"}],"truncated":%s,"next":%q,"incomplete":true}`, key, more, key)
	})
	var told, keys int
	for _, err := range client.List(t.Context(), "photos", penstock.ListOptions{}) {
		switch {
		case errors.Is(err, penstock.ErrIncomplete):
			told++
		case err != nil:
			t.Fatal(err)
		default:
			keys++
		}
	}
	if told != 1 || keys != 2 {
		t.Errorf("told %d times, %d keys", told, keys)
	}
}

// TestListingStandsStill shows that a page that leads nowhere ends the listing.
func TestListingStandsStill(t *testing.T) {
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"entries":[],"truncated":true,"next":"a"}`)
	})
	var last error
	for _, err := range client.List(t.Context(), "photos", penstock.ListOptions{}) {
		last = err
	}
	wantKind(t, last, penstock.Internal)
}
