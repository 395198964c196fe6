package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/httpapi"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
)

func TestEveryKindHasAStatus(t *testing.T) {
	if httpapi.Answers() != len(object.Kinds()) {
		t.Errorf("%d kinds have a status, there are %d", httpapi.Answers(), len(object.Kinds()))
	}
}

// failing is a store that answers every Stat with one error.
type failing struct {
	*nodetest.Store
	err error
}

func (f *failing) Stat(context.Context, object.Name) (object.Info, error) {
	return object.Info{}, f.err
}

func (f *failing) Open(context.Context, object.Name, object.Range) (object.Reader, error) {
	return nil, f.err
}

func TestStatuses(t *testing.T) {
	store := &failing{Store: nodetest.NewStore()}
	d := open(t, config{store: store})
	for kind, status := range map[object.Kind]int{
		object.Internal: 500, object.NotFound: 404, object.Exists: 409, object.Stale: 412, object.Denied: 403,
		object.Invalid: 400, object.Busy: 503, object.Corrupt: 500, object.Unavailable: 503, object.Canceled: 499,
	} {
		store.err = object.Errorf(kind, "what went wrong in /data/1")
		body, h := d.want(t, status, "GET", "/v1/objects/bucket/k", "")
		words := "what went wrong"
		if kind == object.Internal {
			words = "internal error"
			if strings.Contains(body, "/data/1") {
				t.Error("an internal error shows its inside")
			}
		}
		wantError(t, body, kind.String(), words)
		if (h.Get("Retry-After") != "") != (status == 503) {
			t.Errorf("%v: Retry-After is %q", kind, h.Get("Retry-After"))
		}
		if _, h := d.want(t, status, "HEAD", "/v1/objects/bucket/k", ""); !strings.HasPrefix(h.Get("X-Penstock-Error"), kind.String()+": ") {
			t.Errorf("HEAD answers %v", h)
		}
	}
	store.err = context.Canceled
	d.want(t, 499, "GET", "/v1/objects/bucket/k", "")
}

func TestSystem(t *testing.T) {
	store := nodetest.NewStore()
	store.DiskList = []node.Disk{{ID: "d1", Name: "/data", Kind: "ssd", State: "ok", Size: 100, Free: 50}}
	d := open(t, config{store: store})
	d.want(t, 200, "GET", "/healthz", "")
	d.want(t, 200, "HEAD", "/healthz", "")
	d.want(t, 200, "GET", "/readyz", "")
	d.api.SetReady(false)
	body, h := d.want(t, 503, "GET", "/readyz", "")
	wantError(t, body, "Busy", "starting or stopping")
	if h.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	d.want(t, 200, "GET", "/healthz", "")
	for path, words := range map[string]string{
		"/":                        "node test-node",
		"/v1/map":                  `{"number":1,"nodes":[{"name":"test-node","address":"127.0.0.1:1","weight":1,"state":"ok"}]}`,
		"/v1/disks":                `{"disks":[{"id":"d1","name":"/data","kind":"ssd","state":"ok","size":100,"free":50,`,
		"/metrics":                 `penstock_http_requests_total{code="200",route="healthz"} 3`,
		"/debug/pprof/":            "goroutine",
		"/debug/pprof/symbol":      "num_symbols",
		"/debug/pprof/heap":        "",
		"/debug/pprof/goroutine":   "",
		"/debug/pprof/heap?gc=1":   "",
		"/v1/openapi.json":         `"openapi":"3.1.0"`,
		"/metrics?name[]=whatever": "",
	} {
		if body, _ := d.want(t, 200, "GET", path, ""); !strings.Contains(body, words) {
			t.Errorf("%s does not say %q: %s", path, words, body)
		}
	}
	d.want(t, 404, "GET", "/debug/pprof/cmdline", "")
	d.want(t, 404, "GET", "/debug/pprof/nothing", "")
}

func TestScrub(t *testing.T) {
	store := nodetest.NewStore()
	report := node.ScrubReport{ScrubProgress: node.ScrubProgress{Bytes: 7, TotalBytes: 7}, Findings: 1}
	var failure error
	store.ScrubAll = func(_ context.Context, opts node.ScrubOptions, found func(node.Finding)) (node.ScrubReport, error) {
		opts.Progress(node.ScrubProgress{Bytes: 1, TotalBytes: 7})
		opts.Progress(node.ScrubProgress{Bytes: 2, TotalBytes: 7}) // too soon after the other
		found(node.Finding{Disk: "d", Kind: "record", Name: "b/k", Offset: 5, Detail: "bad"})
		return report, failure
	}
	d := open(t, config{store: store})
	lines := func() (all []map[string]any) {
		t.Helper()
		body, h := d.want(t, 200, "POST", "/v1/scrub", "")
		if h.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("the type is %s", h.Get("Content-Type"))
		}
		for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
			var line map[string]any
			if err := json.Unmarshal(s.Bytes(), &line); err != nil || len(line) != 1 {
				t.Errorf("a line is %q (%v)", s.Text(), err)
			}
			all = append(all, line)
		}
		return all
	}
	got := lines()
	if len(got) != 3 || got[0]["progress"] == nil || got[1]["finding"] == nil || got[2]["report"] == nil {
		t.Errorf("the lines are %v", got)
	}
	failure = object.Errorf(object.Unavailable, "a disk went away")
	if got := lines(); got[len(got)-1]["error"] == nil {
		t.Errorf("the lines of a failed scrub are %v", got)
	}
	d.want(t, 400, "POST", "/v1/scrub", "body")
	d.want(t, 400, "POST", "/v1/scrub?all=1", "")
	store.ScrubAll = func(context.Context, node.ScrubOptions, func(node.Finding)) (node.ScrubReport, error) {
		return report, failure
	}
	body, _ := d.want(t, 503, "POST", "/v1/scrub", "")
	wantError(t, body, "Unavailable", "went away")
}

// TestDescription checks the OpenAPI document against the rules it must keep, and
// against the table.
func TestDescription(t *testing.T) {
	d := open(t, config{})
	body, _ := d.want(t, 200, "GET", "/v1/openapi.json", "")
	var doc struct {
		OpenAPI string
		Info    struct{ Title, Version string }
		Paths   map[string]map[string]struct {
			OperationID string
			Summary     string
			Parameters  []struct {
				In, Name string
				Required bool
				Schema   map[string]any
			}
			Responses map[string]struct{ Description string }
			Security  *[]any
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Info.Title == "" || doc.Info.Version == "" {
		t.Errorf("the head is %+v", doc)
	}
	seen := map[string]bool{}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			if seen[op.OperationID] || op.OperationID == "" || op.Summary == "" {
				t.Errorf("%s %s has a bad id or summary: %+v", method, path, op)
			}
			seen[op.OperationID] = true
			inPath := 0
			for _, p := range op.Parameters {
				if p.In == "path" {
					inPath++
					if !p.Required || !strings.Contains(path, "{"+p.Name+"}") {
						t.Errorf("%s: path parameter %s", path, p.Name)
					}
				}
				if p.Schema["type"] == nil {
					t.Errorf("%s: %s has no schema", path, p.Name)
				}
			}
			if inPath != strings.Count(path, "{") {
				t.Errorf("%s has %d path parameters described", path, inPath)
			}
			success := false
			for status, r := range op.Responses {
				success = success || status[0] == '2'
				if r.Description == "" {
					t.Errorf("%s %s: %s has no description", method, path, status)
				}
			}
			if _, ok := op.Responses["default"]; !ok || !success {
				t.Errorf("%s %s lacks answers", method, path)
			}
		}
	}
	for _, r := range httpapi.Routes() {
		if !seen[r.Name] {
			t.Errorf("%s is not described", r.Name)
		}
		op := doc.Paths[strings.Replace(r.Pattern, "*", "{profile}", 1)][strings.ToLower(r.Method)]
		if (op.Security != nil) != r.Open {
			t.Errorf("%s: security is wrongly described", r.Name)
		}
	}
	for ref := range strings.SplitSeq(body, `"$ref":"#/components/schemas/`) {
		if name, _, ok := strings.Cut(ref, `"`); ok && !strings.HasPrefix(ref, "{") {
			if len(doc.Components.Schemas[name].Properties) == 0 {
				t.Errorf("schema %s is missing", name)
			}
		}
	}
}
