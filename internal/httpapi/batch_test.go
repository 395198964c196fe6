package httpapi_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

// itemsOf reads the answer to a batch.
func itemsOf(t testing.TB, answer string, count int) (items []string, errs []error) {
	t.Helper()
	r := wire.NewBatchReader(strings.NewReader(answer), count, 1<<30)
	for {
		data, _, err := r.Next()
		if err == io.EOF {
			return items, errs
		}
		if r.Broken() != nil {
			t.Fatalf("after %d items: %v", len(items), err)
		}
		items, errs = append(items, string(data)), append(errs, err)
	}
}

// entriesOf reads a tar.
func entriesOf(t testing.TB, data string) (names, contents []string) {
	t.Helper()
	r := tar.NewReader(strings.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return names, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names, contents = append(names, h.Name), append(contents, string(content))
	}
}

func tarOf(t testing.TB, headers ...tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(h.Linkname)) // the content, in these tests
			content := h.Linkname
			h.Linkname = ""
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			io.WriteString(w, content) //nolint:errcheck // in memory
			continue
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBatchForms(t *testing.T) {
	d := open(t, config{})
	d.want(t, 200, "PUT", "/v1/objects/bucket/a", "AAA")
	d.want(t, 200, "PUT", "/v1/objects/bucket/d/b", "BBB")
	d.want(t, 200, "PUT", "/v1/objects/bucket/"+"..%2Fup", "up")
	request := `{"bucket":"bucket","refs":[{"key":"a"},{"key":"gone"},{"key":"d/b","offset":1,"length":1},{"key":"../up"},{"bucket":"nowhere","key":"x"}]}`
	body, h := d.want(t, 200, "POST", "/v1/batch", request, "Content-Type: application/json")
	if h.Get("Content-Type") != wire.BatchType {
		t.Error(h)
	}
	items, errs := itemsOf(t, body, 5)
	if items[0] != "AAA" || !object.Is(errs[1], object.NotFound) || items[2] != "B" || items[3] != "up" || !object.Is(errs[4], object.NotFound) {
		t.Errorf("%q, %v", items, errs)
	}
	body, _ = d.want(t, 200, "POST", "/v1/batch", request, "Accept: application/x-tar", "Content-Type: application/x-www-form-urlencoded")
	names, contents := entriesOf(t, body)
	if want := []string{"a", ".penstock/failed/1", "d/b", ".penstock/failed/3", ".penstock/failed/4"}; fmt.Sprint(names) != fmt.Sprint(want) || contents[0] != "AAA" || !strings.HasPrefix(contents[1], "NotFound\n") {
		t.Errorf("%q, %q", names, contents)
	}
}

func TestBatchChecked(t *testing.T) {
	d := open(t, config{})
	d.want(t, 200, "PUT", "/v1/objects/bucket/a", "AAA")
	sum := fmt.Sprintf("%08X", crc32.ChecksumIEEE([]byte("AA")))
	request := `{"bucket":"bucket","refs":[{"key":"a","length":2,"crc32":"` + sum + `"},{"key":"a","crc32":"` + sum + `"},{"key":"a","offset":1,"length":3,"crc32":"` + sum + `"},{"key":"a"}]}`
	body, _ := d.want(t, 200, "POST", "/v1/batch", request)
	items, errs := itemsOf(t, body, 4)
	if items[0] != "AA" || errs[0] != nil || items[3] != "AAA" || errs[3] != nil {
		t.Errorf("%q, %v", items, errs)
	}
	for _, err := range errs[1:3] {
		if !object.Is(err, object.Stale) || !strings.Contains(err.Error(), "bucket/a is not what was asked for") {
			t.Error(err)
		}
	}
	body, _ = d.want(t, 400, "POST", "/v1/batch", `{"bucket":"bucket","refs":[{"key":"a","crc32":"123"}]}`)
	wantError(t, body, "Invalid", "8 hexadecimal digits")
}

func TestMember(t *testing.T) {
	d := open(t, config{})
	d.want(t, 200, "PUT", "/v1/objects/bucket/t.tar", tarOf(t, tar.Header{Name: "dir/x", Linkname: "0123456789"}, tar.Header{Name: "empty"}))
	d.want(t, 200, "PUT", "/v1/objects/bucket/no.tar", strings.Repeat("no tar ", 200))
	for _, tt := range []struct {
		status              int
		path, headers, body string
	}{
		{200, "t.tar?member=dir/x", "", "0123456789"},
		{200, "t.tar?member=dir%2Fx", "", "0123456789"},
		{206, "t.tar?member=dir/x", "Range: bytes=2-4", "234"},
		{206, "t.tar?member=dir/x", "Range: bytes=-3", "789"},
		{416, "t.tar?member=dir/x", "Range: bytes=10-", "lies outside"},
		{200, "t.tar?member=empty", "", ""},
		{404, "t.tar?member=gone", "", "has no file"},
		{404, "gone.tar?member=x", "", "does not exist"},
		{400, "no.tar?member=x", "", "no.tar"},
		{400, "t.tar?member=", "", "takes one parameter"},
		{400, "t.tar?member=a&member=b", "", "takes one parameter"},
		{400, "t.tar?other=1", "", "takes one parameter"},
		{412, "t.tar?member=dir/x", `If-Match: "other"`, ""},
		{412, "t.tar?member=dir/x", "Range: bytes=10-; If-Match: \"other\"", ""},
	} {
		var headers []string
		if tt.headers != "" {
			headers = strings.Split(tt.headers, "; ")
		}
		body, h := d.want(t, tt.status, "GET", "/v1/objects/bucket/"+tt.path, "", headers...)
		if tt.status < 300 && body != tt.body || !strings.Contains(body, tt.body) {
			t.Errorf("%s: %q", tt.path, body)
		}
		if tt.status == 206 && h.Get("Content-Range") == "" || tt.status == 200 && h.Get("Etag") == "" {
			t.Errorf("%s: %v", tt.path, h)
		}
	}
	_, h := d.want(t, 200, "HEAD", "/v1/objects/bucket/t.tar?member=dir/x", "")
	if h.Get("Content-Length") != "10" {
		t.Error(h)
	}
	d.want(t, 400, "PUT", "/v1/objects/bucket/t.tar?member=x", "x")
	d.want(t, 400, "DELETE", "/v1/objects/bucket/t.tar?member=x", "")
}

func TestPutBatchTar(t *testing.T) {
	d := open(t, config{})
	body, _ := d.want(t, 200, "POST", "/v1/put-batch?bucket=bucket&prefix=in/", tarOf(t,
		tar.Header{Name: "./good", Linkname: "G"}, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/also", Linkname: "A"},
		tar.Header{Name: "/etc/passwd", Linkname: "x"}, tar.Header{Name: "a/../../b", Linkname: "x"},
		tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, tar.Header{Name: "dev", Typeflag: tar.TypeChar},
		tar.Header{Name: "good", Linkname: "again"}, tar.Header{Name: "big", Linkname: strings.Repeat("b", 300<<10)},
	), "Content-Type: application/x-tar")
	var answer struct {
		Stored int
		Bytes  int64
		Failed []struct{ Key, Kind, Message string }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Stored != 3 || answer.Bytes != 2+300<<10 || len(answer.Failed) != 5 {
		t.Fatalf("%s", body)
	}
	for _, f := range answer.Failed {
		if f.Kind != "Invalid" || f.Message == "" {
			t.Errorf("%+v", f)
		}
	}
	page, _ := d.want(t, 200, "GET", "/v1/objects/bucket", "")
	if strings.Count(page, `"key":`) != 3 {
		t.Error(page)
	}
	if got, _ := d.want(t, 200, "GET", "/v1/objects/bucket/in/good", ""); got != "G" {
		t.Error(got)
	}
}

func TestBadBatches(t *testing.T) {
	d := open(t, config{})
	d.want(t, 200, "PUT", "/v1/objects/bucket/a", "AAA")
	whole := wire.AppendObjectsHead(nil)
	whole, _ = wire.AppendObject(whole, &object.Upload{Key: "k", Bytes: []byte("content")})
	cut := string(whole)
	whole = wire.AppendObjectsEnd(whole, 1)
	flipped := bytes.Clone(whole)
	flipped[bytes.Index(flipped, []byte("content"))] ^= 1
	many := `{"bucket":"bucket","refs":[` + strings.Repeat(`{"key":"a"},`, 70000) + `{"key":"a"}]}`
	for _, tt := range []struct {
		status             int
		path, body, header string
		kind, words        string
	}{
		{400, "/v1/batch", "", "", "Invalid", ""},
		{400, "/v1/batch", `{"bucket":"bucket"`, "", "Invalid", ""},
		{400, "/v1/batch", `{"bucket":"bucket","refs":[{"kye":"a"}]}`, "", "Invalid", "kye"},
		{400, "/v1/batch", `{"bucket":"bucket","refs":[{"key":""}]}`, "", "Invalid", ""},
		{400, "/v1/batch", many, "", "Invalid", "65536"},
		{400, "/v1/batch", "pstkref1\xff\xff\xff\xff", "Content-Type: " + wire.RefsType, "Invalid", ""},
		{400, "/v1/batch?bucket=b", `{"bucket":"bucket","refs":[]}`, "", "Invalid", "no parameters"},
		{415, "/v1/batch", "x", "Content-Type: text/plain", "Invalid", "text/plain"},
		{413, "/v1/batch", strings.Repeat(" ", 17<<20), "", "Invalid", ""},
		{400, "/v1/put-batch", "", "", "Invalid", ""},
		{404, "/v1/put-batch?bucket=nowhere", "", "", "NotFound", "nowhere"},
		{400, "/v1/put-batch?bucket=bucket&x=1", "", "", "Invalid", `"x"`},
		{400, "/v1/put-batch?bucket=bucket", "", "", "Invalid", ""},
		{400, "/v1/put-batch?bucket=bucket", cut, "", "Invalid", ""},
		{400, "/v1/put-batch?bucket=bucket", string(whole) + "x", "", "Invalid", ""},
		{400, "/v1/put-batch?bucket=bucket", strings.Repeat("no tar ", 1000), "Content-Type: application/x-tar", "Invalid", ""},
		{415, "/v1/put-batch?bucket=bucket", "x", "Content-Type: text/plain", "Invalid", ""},
	} {
		var headers []string
		if tt.header != "" {
			headers = []string{tt.header}
		}
		body, _ := d.want(t, tt.status, "POST", tt.path, tt.body, headers...)
		wantError(t, body, tt.kind, tt.words)
	}
	body, _ := d.want(t, 200, "POST", "/v1/put-batch?bucket=bucket", string(flipped))
	if !strings.Contains(body, `"stored":0`) || !strings.Contains(body, "CRC-32") {
		t.Error(body)
	}
	d.want(t, 404, "GET", "/v1/objects/bucket/k", "")
	if items, _ := itemsOf(t, must200(t, d, `{"bucket":"bucket","refs":[]}`), 0); len(items) != 0 {
		t.Error(items)
	}
	if d.metric(t, "penstock_http_panics_total") != 0 {
		t.Error("something panicked")
	}
}

func must200(t *testing.T, d *door, request string) string {
	t.Helper()
	body, _ := d.want(t, 200, "POST", "/v1/batch", request)
	return body
}

// TestSameOne asks for one object of 100 KiB 10,000 times, and reads only the
// beginning of the GiB: the node does not hold it in memory.
func TestSameOne(t *testing.T) {
	d := open(t, config{})
	d.want(t, 200, "PUT", "/v1/objects/bucket/a", strings.Repeat("a", 100<<10))
	request := `{"bucket":"bucket","refs":[` + strings.Repeat(`{"key":"a"},`, 9999) + `{"key":"a"}]}`
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	answer := d.request(t, http.MethodPost, "/v1/batch", strings.NewReader(request))
	defer answer.Body.Close()
	if _, err := io.CopyN(io.Discard, answer.Body, 8<<20); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 64<<20 {
		t.Errorf("%d bytes more are in use", grown)
	}
}
