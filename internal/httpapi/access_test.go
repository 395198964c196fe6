package httpapi_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/httpapi"
)

// matrix returns a request for each route, and a few that have none.
func matrix() []httpapi.RouteInfo {
	all := httpapi.Routes()
	for i := range all {
		all[i].Pattern = strings.NewReplacer("{bucket}", "bucket", "{key}", "some/key", "{dataset}", "cats", "{version}", "1", "{user}", "root", "*", "symbol").Replace(all[i].Pattern)
	}
	for _, path := range []string{"/v1/nothing", "/favicon.ico", "/v1", "/v1/objects", "//healthz", "/healthz/", "/healthz/../v1/buckets", "/%68ealthz", "/debug/pprof", "/v1/objects/bucket/k/../../../healthz"} {
		all = append(all, httpapi.RouteInfo{Method: "GET", Pattern: path, Name: "none"})
	}
	return append(all, httpapi.RouteInfo{Method: "TRACE", Pattern: "/v1/buckets"}, httpapi.RouteInfo{Method: "POST", Pattern: "/healthz"}, httpapi.RouteInfo{Method: "OPTIONS", Pattern: "/v1/buckets"})
}

// TestAccess tries every route of the table with every form of credentials, right
// and wrong. It is made from the table, so that a new route is tried, too.
func TestAccess(t *testing.T) {
	const none, refused, passed = 0, 1, 2
	for _, network := range []bool{false, true} {
		d := open(t, config{network: network})
		for _, route := range matrix() {
			for _, c := range []struct {
				header string
				want   int
			}{
				{"", none},
				{"Authorization: Bearer " + token, passed},
				{"Authorization: bearer " + token, passed},
				{"Authorization: Bearer wrong-token", refused},
				{"Authorization: Bearer ", refused},
				{"Authorization: Bearer", refused},
				{"Authorization: ", refused},
				{"Authorization: " + token, refused},
				{"Authorization: Bearer " + token + "x", refused},
				{"Authorization: Bearer  " + token, refused},
				{"Authorization: Bearer " + token[:len(token)-1], refused},
				{"Authorization: Basic " + token, refused},
			} {
				var headers []string
				if c.header != "" {
					headers = append(headers, c.header)
				}
				want := c.want == passed || (c.want == none && !network) || route.Open
				status, body, h := d.do(t, route.Method, route.Pattern, "", headers...)
				if got := status != 401 && status != 403; got != want {
					t.Errorf("network %v: %s %s with %q: %d, want in: %v", network, route.Method, route.Pattern, c.header, status, want)
				}
				if status == 401 {
					if h.Get("Www-Authenticate") == "" {
						t.Errorf("%s: 401 without WWW-Authenticate", route.Pattern)
					}
					if route.Method != "HEAD" {
						wantError(t, body, "Denied", "")
					}
					if strings.Contains(body, "wrong-token") || strings.Contains(body, token) {
						t.Errorf("the answer shows a token: %s", body)
					}
				}
			}
		}
		// Two tokens are one too many, even if one is right.
		d.want(t, 401, "GET", "/v1/buckets", "", "Authorization: Bearer "+token, "Authorization: Bearer wrong")
		// A key pair does as well as a token.
		accessKey, secretKey := d.authority.Keys()
		pair := func(accessKey, secretKey string) string {
			return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(accessKey+":"+secretKey))
		}
		d.want(t, 200, "GET", "/v1/buckets", "", pair(accessKey, secretKey.Reveal()))
		d.want(t, 401, "GET", "/v1/buckets", "", pair(accessKey, "wrong"))
		d.want(t, 401, "GET", "/v1/buckets", "", pair("wrong", secretKey.Reveal()))
		d.want(t, 401, "GET", "/v1/buckets", "", pair("", ""))
	}
}

// TestBrowsers sends what web pages can make a browser send to a machine's own
// loopback.
func TestBrowsers(t *testing.T) {
	d := open(t, config{})
	port := d.addr[strings.LastIndex(d.addr, ":"):]
	for _, tt := range []struct {
		in      bool
		headers []string
	}{
		{true, nil},
		{true, []string{"Host: localhost" + port}},
		{true, []string{"Host: LOCALHOST" + port}},
		{true, []string{"Host: localhost"}},
		{true, []string{"Host: 127.0.0.1:9999"}}, // a forwarded port
		{true, []string{"Host: 127.9.9.9"}},
		{true, []string{"Host: [::1]" + port}},
		{true, []string{"Host: [::1]"}},
		{false, []string{"Host: evil.example" + port}},
		{false, []string{"Host: evil.example"}},
		{false, []string{"Host: localhost.evil.example" + port}},
		{false, []string{"Host: 127.0.0.1.evil.example" + port}},
		{false, []string{"Host: 10.0.0.1" + port}},
		{false, []string{"Host: 0.0.0.0" + port}},
		{true, []string{"Origin: http://" + d.addr}},
		{true, []string{"Host: localhost" + port, "Origin: http://localhost" + port}},
		{false, []string{"Origin: http://evil.example"}},
		{false, []string{"Origin: null"}},
		{false, []string{"Origin: http://localhost:3000"}},
		{false, []string{"Origin: http://127.0.0.1"}},
		{false, []string{"Origin: http://" + d.addr, "Origin: http://evil.example"}},
		{true, []string{"Sec-Fetch-Site: same-origin"}},
		{true, []string{"Sec-Fetch-Site: none"}},
		{false, []string{"Sec-Fetch-Site: cross-site"}},
		{false, []string{"Sec-Fetch-Site: same-site"}},
	} {
		status, body, _ := d.do(t, "GET", "/v1/buckets", "", tt.headers...)
		if (status == 200) != tt.in || (!tt.in && status != 403) {
			t.Errorf("%q: %d %s, want in: %v", tt.headers, status, body, tt.in)
		}
		// Whoever has the token is no web page.
		d.want(t, 200, "GET", "/v1/buckets", "", append(tt.headers, "Authorization: Bearer "+token)...)
	}
	answer, _ := d.raw(t, "GET /v1/buckets HTTP/1.0\r\n\r\n", false)
	if answer.StatusCode != 403 {
		t.Errorf("without Host: %d", answer.StatusCode)
	}
}

func TestNotRouted(t *testing.T) {
	d := open(t, config{})
	for path, status := range map[string]int{
		"/v2": 404, "/v1/": 404, "/v1/objects": 404, "/v1/objects/": 400, "/v1/buckets/": 400, "/v1/buckets/a/b": 404,
		"/v1/datasets/": 400, "/v1/datasets/cats/1/2": 404,
		"/V1/buckets": 404, "/v1/buckets//": 404, "//v1/buckets": 404, "/v1/./buckets": 404, "/index.html": 404,
	} {
		body, _ := d.want(t, status, "GET", path, "")
		wantError(t, body, map[int]string{404: "NotFound", 400: "Invalid"}[status], "")
	}
	for _, tt := range []struct{ method, path, allow string }{
		{"POST", "/v1/objects/bucket/k", "GET, HEAD, PUT, DELETE"},
		{"PUT", "/v1/objects/bucket", "GET"},
		{"DELETE", "/healthz", "GET"},
		{"GET", "/v1/scrub", "POST"},
		{"HEAD", "/v1/scrub", "POST"},
		{"OPTIONS", "/v1/buckets/bucket", "GET, PUT, PATCH, DELETE"},
		{"POST", "/v1/datasets/cats/1", "PUT, DELETE"},
		{"PUT", "/v1/datasets/cats", "GET, DELETE"},
		{"BREW", "/", "GET"},
	} {
		_, h := d.want(t, http.StatusMethodNotAllowed, tt.method, tt.path, "")
		if h.Get("Allow") != tt.allow {
			t.Errorf("%s %s: Allow is %q, want %q", tt.method, tt.path, h.Get("Allow"), tt.allow)
		}
	}
}
