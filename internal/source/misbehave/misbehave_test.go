package misbehave_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/source/misbehave"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestProxy shows that what is not harmed arrives unharmed, both ways, and that plans
// count requests. What each fault does is seen by the tests of the sources.
func TestProxy(t *testing.T) {
	real := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Method+" "+r.Host+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Mine"))
		w.WriteHeader(http.StatusAccepted)
		w.Write(body) //nolint:errcheck // the client sees it
	}))
	defer real.Close()
	proxy := misbehave.New(real.URL)
	defer proxy.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func() (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, proxy.URL+"/a%2Fb//c?d=e", bytes.NewReader([]byte("body")))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "signed.example"
		req.Header.Set("X-Mine", "1")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	resp, body := ask()
	if got := resp.Header.Get("X-Seen"); resp.StatusCode != http.StatusAccepted || body != "body" || got != "PUT signed.example /a%2Fb//c?d=e 1" {
		t.Errorf("%d, %q, %q", resp.StatusCode, got, body)
	}
	proxy.Set(func(_ *http.Request, n int) misbehave.Fault {
		switch n {
		case 0:
			return misbehave.SlowDown()
		case 1:
			return misbehave.Rewrite(bytes.ToUpper)
		}
		return nil
	})
	if resp, _ := ask(); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the first: %d", resp.StatusCode)
	}
	if _, body := ask(); body != "BODY" {
		t.Errorf("the second: %q", body)
	}
	if resp, body := ask(); resp.StatusCode != http.StatusAccepted || body != "body" || proxy.Count() != 3 {
		t.Errorf("the third of %d: %d, %q", proxy.Count(), resp.StatusCode, body)
	}
}
