package httpapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// described stores a manifest and returns the body that publishes it.
func described(t *testing.T, d *door, version int) string {
	t.Helper()
	h := d.put(t, fmt.Sprintf("cats/manifest-%06d", version), fmt.Sprint("version ", version))
	return fmt.Sprintf(`{"bucket":"bucket","manifest":"cats/manifest-%06d","etag":%s,"samples":10,"bytes":1000,"fields":["jpg"],"columns":["cls"],"logical":"%064x"}`,
		version, h.Get("Etag"), version)
}

func TestDatasets(t *testing.T) {
	d := open(t, config{})
	body, h := d.want(t, 200, "GET", "/v1/datasets", "")
	if body != "{\"datasets\":[]}\n" || h.Get("Etag") == "" {
		t.Error(body, h)
	}
	none := h.Get("Etag")
	d.want(t, 304, "GET", "/v1/datasets", "", "If-None-Match: "+none)
	body, _ = d.want(t, 404, "GET", "/v1/datasets/cats", "")
	wantError(t, body, "NotFound", "dataset cats does not exist")
	first := described(t, d, 1)
	body, _ = d.want(t, 201, "PUT", "/v1/datasets/cats/1", first)
	if !strings.Contains(body, `"version":1,"manifest":"cats/manifest-000001"`) || !strings.Contains(body, `"created":"`) {
		t.Error(body)
	}
	body, _ = d.want(t, 409, "PUT", "/v1/datasets/cats/1", first)
	wantError(t, body, "Exists", "has a version 1 already")
	body, _ = d.want(t, 412, "PUT", "/v1/datasets/cats/3", first)
	wantError(t, body, "Stale", "is 2, not 3")
	d.want(t, 201, "PUT", "/v1/datasets/cats/2", described(t, d, 2))
	d.want(t, 200, "GET", "/v1/datasets", "", "If-None-Match: "+none)

	var one struct {
		Name, Bucket string
		Newest, Next int64
		Versions     []struct {
			Version                 int64
			Manifest, ETag, Logical string
			Samples, Bytes          int64
			Fields, Columns         []string
			Created                 string
		}
	}
	body, h = d.want(t, 200, "GET", "/v1/datasets/c%61ts", "")
	if err := json.Unmarshal([]byte(body), &one); err != nil {
		t.Fatal(err)
	}
	if one.Name != "cats" || one.Bucket != "bucket" || one.Newest != 2 || one.Next != 3 || len(one.Versions) != 2 || one.Versions[1].Manifest != "cats/manifest-000002" ||
		one.Versions[0].Samples != 10 || one.Versions[0].Fields[0] != "jpg" || one.Versions[0].Columns[0] != "cls" || one.Versions[0].ETag == "" {
		t.Errorf("%s", body)
	}
	tag := h.Get("Etag")
	for _, list := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		if body, h := d.want(t, 304, "GET", "/v1/datasets/cats", "", "If-None-Match: "+list); body != "" || h.Get("Etag") != tag {
			t.Errorf("%q, %v", body, h)
		}
	}
	if _, h := d.want(t, 200, "HEAD", "/v1/datasets/cats", ""); h.Get("Etag") != tag {
		t.Error(h)
	}
	list, _ := d.want(t, 200, "GET", "/v1/datasets", "")
	if list != `{"datasets":[`+strings.TrimSpace(body)+"]}\n" {
		t.Errorf("%s\n%s", list, body)
	}

	d.want(t, 204, "DELETE", "/v1/datasets/cats/2", "")
	body, _ = d.want(t, 404, "DELETE", "/v1/datasets/cats/2", "")
	wantError(t, body, "NotFound", "has no version 2")
	body, _ = d.want(t, 200, "GET", "/v1/datasets/cats", "", "If-None-Match: "+tag)
	if !strings.Contains(body, `"newest":1,"next":3`) {
		t.Error(body)
	}
	d.want(t, 204, "DELETE", "/v1/datasets/cats", "")
	d.want(t, 404, "DELETE", "/v1/datasets/cats", "")
	d.want(t, 304, "GET", "/v1/datasets", "", "If-None-Match: "+none)
	if body, _ = d.want(t, 200, "GET", "/v1/datasets/cats", ""); body != "{\"name\":\"cats\",\"bucket\":\"\",\"newest\":0,\"next\":3,\"versions\":[]}\n" {
		t.Error(body)
	}
	d.want(t, 204, "DELETE", "/v1/objects/bucket/cats/manifest-000001", "")
}

func TestBadDatasets(t *testing.T) {
	d := open(t, config{})
	good := described(t, d, 1)
	for _, tt := range []struct {
		path, body, words string
	}{
		{"/v1/datasets/cats/0", good, "number from 1"},
		{"/v1/datasets/cats/01", good, "number from 1"},
		{"/v1/datasets/cats/+1", good, "number from 1"},
		{"/v1/datasets/cats/-1", good, "number from 1"},
		{"/v1/datasets/cats/", good, "number from 1"},
		{"/v1/datasets/cats/one", good, "number from 1"},
		{"/v1/datasets/cats/9223372036854775808", good, "number from 1"},
		{"/v1/datasets/.cats/1", good, "begin with a dot"},
		{"/v1/datasets//1", good, "1 to 128"},
		{"/v1/datasets/cats%401/1", good, "may hold only"},
		{"/v1/datasets/a%2Fb/1", good, "may hold only"},
		{"/v1/datasets/" + strings.Repeat("c", 129) + "/1", good, "1 to 128"},
		{"/v1/datasets/cats/1?force=1", good, "no parameters"},
		{"/v1/datasets/cats/1", "", "one JSON object"},
		{"/v1/datasets/cats/1", "null", "key is empty"},
		{"/v1/datasets/cats/1", "[]", "one JSON object"},
		{"/v1/datasets/cats/1", good + good, "something follows"},
		{"/v1/datasets/cats/1", strings.Replace(good, `"bytes"`, `"more":1,"bytes"`, 1), "more"},
		{"/v1/datasets/cats/1", strings.Replace(good, `"bytes"`, `"created":"2026-01-01T00:00:00Z","bytes"`, 1), "created"},
		{"/v1/datasets/cats/1", strings.Replace(good, `:1000`, `:1.5`, 1), "one JSON object"},
		{"/v1/datasets/cats/1", strings.Replace(good, `:1000`, `:-1000`, 1), "makes no sense"},
		{"/v1/datasets/cats/1", strings.Replace(good, `manifest-000001`, `manifest-000002`, 1), "does not exist"},
		{"/v1/datasets/cats/1", strings.Replace(good, `"etag":"`, `"etag":"0`, 1), "has ETag"},
		{"/v1/datasets/cats/1", strings.Repeat(" ", 65<<10) + good, "longer than 65536"},
	} {
		body, _ := d.want(t, 400, "PUT", tt.path, tt.body)
		wantError(t, body, "Invalid", tt.words)
	}
	body, _ := d.want(t, 404, "PUT", "/v1/datasets/cats/1", strings.Replace(good, `"bucket":"bucket"`, `"bucket":"nowhere"`, 1))
	wantError(t, body, "NotFound", "bucket nowhere")
	for _, path := range []string{"/v1/datasets?all=1", "/v1/datasets/cats?all=1"} {
		d.want(t, 400, "GET", path, "")
	}
	if body, _ := d.want(t, 200, "GET", "/v1/datasets", ""); body != "{\"datasets\":[]}\n" {
		t.Error(body)
	}
	d.want(t, 201, "PUT", "/v1/datasets/cats/1", good)
}

// TestPagesOfDatasets: pages follow one another, each with what comes behind the one
// before, and say whether there are more.
func TestPagesOfDatasets(t *testing.T) {
	d := open(t, config{})
	var names []string
	for _, name := range []string{"a", "b-1", "b", "c", "d"} {
		d.want(t, 201, "PUT", "/v1/datasets/"+name+"/1", described(t, d, 1)) // the same manifest for all
		names = append(names, name)
	}
	slices.Sort(names)
	type page struct {
		Datasets  []struct{ Name string }
		Truncated bool
		Next      string
	}
	get := func(query string) (p page, found []string) {
		body, _ := d.want(t, 200, "GET", "/v1/datasets"+query, "")
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err)
		}
		for _, one := range p.Datasets {
			found = append(found, one.Name)
		}
		return p, found
	}
	if p, found := get(""); !slices.Equal(found, names) || p.Truncated || p.Next != "" {
		t.Errorf("%+v", p)
	}
	for limit := 1; limit <= 6; limit++ {
		var all []string
		for after := ""; ; {
			p, found := get(fmt.Sprintf("?limit=%d&after=%s", limit, after))
			if all = append(all, found...); len(found) > limit || p.Truncated != (p.Next != "") {
				t.Errorf("limit %d: %+v", limit, p)
			}
			if after = p.Next; after == "" {
				break
			}
		}
		if !slices.Equal(all, names) {
			t.Errorf("limit %d: %q", limit, all)
		}
	}
	if p, found := get("?after=b"); !slices.Equal(found, []string{"b-1", "c", "d"}) || p.Truncated {
		t.Errorf("%+v", p)
	}
	if _, found := get("?after=zzz"); found != nil {
		t.Errorf("%q", found)
	}
	for _, query := range []string{"?limit=0", "?limit=10001", "?limit=x", "?prefix=a", "?delimiter=/", "?after=a&after=b"} {
		body, _ := d.want(t, 400, "GET", "/v1/datasets"+query, "")
		wantError(t, body, "Invalid", "")
	}
	// With a tag of its own each.
	_, one := d.want(t, 200, "GET", "/v1/datasets?limit=1", "")
	_, two := d.want(t, 200, "GET", "/v1/datasets?limit=2", "")
	if one.Get("Etag") == two.Get("Etag") {
		t.Error("pages share a tag")
	}
}
