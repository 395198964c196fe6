package penstock_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/object/objecttest"
)

// These tests are about the link between client and node: the node's end of it
// is played by a handler that breaks it on purpose.

var name = penstock.Name{Bucket: "photos", Key: "cat.jpg"}

// link returns a client of a handler, and the pauses it made.
func link(t *testing.T, handler http.HandlerFunc) (*penstock.Client, *[]time.Duration) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := penstock.New(penstock.Options{Endpoint: server.URL, Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	pauses := new([]time.Duration)
	client.SetPause(func(ctx context.Context, wait time.Duration) error {
		*pauses = append(*pauses, wait)
		return ctx.Err()
	})
	return client, pauses
}

// describe sets the headers of an object.
func describe(h http.Header, content []byte) {
	h.Set("ETag", `"1-1"`)
	h.Set("X-Penstock-Version", "1.7")
	h.Set("X-Penstock-Crc32", fmt.Sprintf("%08x", crc32.ChecksumIEEE(content)))
	h.Set("Last-Modified", "Sun, 15 Nov 2026 01:00:00 GMT")
}

// stored answers a PUT as a node that stored what came.
func stored(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, `{"bucket":"photos","key":"cat.jpg","size":%d,"etag":"1-1","modified":"2026-11-15T01:00:00Z","version":"1.7","crc32":"%08x"}`,
		len(content), crc32.ChecksumIEEE(content))
}

func fail(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"kind":%q,"message":%q}}`, kind, message)
}

func wantKind(t *testing.T, err error, kind penstock.Kind) {
	t.Helper()
	if !penstock.Is(err, kind) {
		t.Errorf("%v (%v), want %v", err, penstock.KindOf(err), kind)
	}
}

func TestRepeatsWhileBusy(t *testing.T) {
	var asked atomic.Int32
	client, pauses := link(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 4 {
			w.Header().Set("Retry-After", "2")
			fail(w, 503, "Busy", "too many requests")
			return
		}
		describe(w.Header(), []byte("meow"))
		io.WriteString(w, "meow")
	})
	data, err := client.Get(t.Context(), name)
	if err != nil || string(data) != "meow" {
		t.Fatalf("%q, %v", data, err)
	}
	if len(*pauses) != 3 {
		t.Fatalf("paused %v, want three times", *pauses)
	}
	for _, wait := range *pauses {
		if wait < 2*time.Second || wait > 6*time.Second {
			t.Errorf("waited %s where the node asked for 2s", wait)
		}
	}
}

// TestPatience shows that a node that asks for more time than we have is not
// waited for.
func TestPatience(t *testing.T) {
	client, pauses := link(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "9")
		w.Header().Set("X-Penstock-Error", "Unavailable")
		w.WriteHeader(503)
	})
	_, err := client.Stat(t.Context(), name)
	wantKind(t, err, penstock.Unavailable)
	if len(*pauses) != 1 {
		t.Errorf("paused %v, want once", *pauses)
	}
}

func TestGivesUp(t *testing.T) {
	var asked atomic.Int32
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fail(w, 503, "Unavailable", "disk 3 is not there")
	})
	_, err := client.Get(t.Context(), name)
	wantKind(t, err, penstock.Unavailable)
	if asked.Load() != 5 {
		t.Errorf("asked %d times, want 5", asked.Load())
	}
	if !strings.Contains(err.Error(), "disk 3 is not there") || !strings.Contains(err.Error(), client.Endpoint()) {
		t.Errorf("%q does not say what and where", err)
	}
}

// TestPutRepeats shows which writes are sent again: those that are the same when
// they are done twice, and whose body is still there.
func TestPutRepeats(t *testing.T) {
	body := strings.Repeat("x", 3<<20)
	for _, tt := range []struct {
		what string
		body io.Reader
		cond penstock.Condition
		want int32
	}{
		{"unconditional and seekable", strings.NewReader(body), penstock.Condition{}, 3},
		{"a stream", io.MultiReader(strings.NewReader(body)), penstock.Condition{}, 1},
		{"conditional", strings.NewReader(body), penstock.Condition{IfNoneMatch: "*"}, 1},
		{"conditional", strings.NewReader(body), penstock.Condition{IfMatch: "1-1"}, 1},
	} {
		for how, breakOff := range map[string]func(w http.ResponseWriter){
			"busy":  func(w http.ResponseWriter) { fail(w, 503, "Busy", "busy") },
			"reset": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		} {
			t.Run(tt.what+", "+how, func(t *testing.T) {
				if s, ok := tt.body.(io.Seeker); ok {
					if _, err := s.Seek(5, io.SeekStart); err != nil { // a body begins where its reader stands
						t.Fatal(err)
					}
				} else {
					tt.body = io.MultiReader(strings.NewReader(body))
				}
				var asked atomic.Int32
				client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
					if asked.Add(1) < 3 {
						_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
						breakOff(w)
						return
					}
					stored(w, r)
				})
				info, err := client.Put(t.Context(), name, tt.body, penstock.PutOptions{Condition: tt.cond})
				if asked.Load() != tt.want {
					t.Errorf("sent %d times, want %d", asked.Load(), tt.want)
				}
				if (err == nil) != (tt.want == 3) {
					t.Errorf("put: %v", err)
				}
				if err == nil && info.Size != int64(len(body)-5) {
					t.Errorf("stored %d bytes", info.Size)
				}
			})
		}
	}
}

func TestDeleteRepeats(t *testing.T) {
	var asked atomic.Int32
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			panic(http.ErrAbortHandler) // after the work was done
		}
		fail(w, 404, "NotFound", "photos/cat.jpg does not exist")
	})
	if err := client.Delete(t.Context(), name, penstock.Condition{}); err != nil {
		t.Errorf("an object that is gone: %v", err)
	}
	wantKind(t, client.Delete(t.Context(), name, penstock.Condition{}), penstock.NotFound)
}

// TestWrongBytes shows that a damaged body is never taken for the object, even
// by a reader that asks for exactly as many bytes as there are.
func TestWrongBytes(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 30000)
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		describe(w.Header(), content)
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		wrong := bytes.Clone(content)
		wrong[17] ^= 1
		_, _ = w.Write(wrong)
	})
	_, err := client.Get(t.Context(), name)
	wantKind(t, err, penstock.Corrupt)
	for what, read := range map[string]func(penstock.Reader) error{
		"ReadFull": func(r penstock.Reader) error { _, err := io.ReadFull(r, make([]byte, len(content))); return err },
		"WriteTo":  func(r penstock.Reader) error { _, err := r.WriteTo(io.Discard); return err },
		"one by one": func(r penstock.Reader) error {
			var err error
			for n, b := 0, make([]byte, 1); n < len(content) && err == nil; n++ {
				_, err = io.ReadFull(r, b)
			}
			return err
		},
	} {
		r, err := client.Open(t.Context(), name, penstock.Range{})
		if err != nil {
			t.Fatal(err)
		}
		if err := read(r); !penstock.Is(err, penstock.Corrupt) {
			t.Errorf("%s: %v, want Corrupt", what, err)
		}
		if _, err := r.Read(make([]byte, 1)); !penstock.Is(err, penstock.Corrupt) {
			t.Errorf("%s, then Read: %v, want Corrupt", what, err)
		}
		r.Close()
	}
}

func TestBodyBreaksOff(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 300000)
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		describe(w.Header(), content)
		if r.Header.Get("Range") != "" { // ends early, in good order
			w.Header().Set("Content-Range", "bytes 0-9/300000")
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, "xxxxx")
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:100000])
		panic(http.ErrAbortHandler)
	})
	_, err := client.Get(t.Context(), name)
	wantKind(t, err, penstock.Unavailable)
	r, err := client.Open(t.Context(), name, penstock.Range{Length: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = io.ReadAll(r)
	wantKind(t, err, penstock.Corrupt)
}

func TestStoredWrong(t *testing.T) {
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader("other bytes"))
		stored(w, r)
	})
	_, err := client.Put(t.Context(), name, strings.NewReader("these bytes"), penstock.PutOptions{})
	wantKind(t, err, penstock.Corrupt)
	_, err = client.Put(t.Context(), name, io.MultiReader(strings.NewReader("these bytes")), penstock.PutOptions{})
	wantKind(t, err, penstock.Corrupt)
}

// TestPathIsExact shows that a key reaches the node byte for byte.
func TestPathIsExact(t *testing.T) {
	var got atomic.Value
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.RequestURI)
		w.WriteHeader(http.StatusNoContent)
	})
	for key, want := range map[string]string{
		"a b":         "a%20b",
		"a//b":        "a//b",
		"..":          "..",
		"../../x":     "../../x",
		"/":           "/",
		"a%2Fb":       "a%252Fb",
		"a?b=c#d":     "a%3Fb%3Dc%23d",
		"ü\n\x00":     "%C3%BC%0A%00",
		"-._~":        "-._~",
		"a+b":         "a%2Bb",
		"[x]{y};:@&=": "%5Bx%5D%7By%7D%3B%3A%40%26%3D",
	} {
		if err := client.Delete(t.Context(), penstock.Name{Bucket: "bucket", Key: key}, penstock.Condition{}); err != nil {
			t.Fatal(err)
		}
		if got.Load() != "/v1/objects/bucket/"+want {
			t.Errorf("%q is asked for as %s", key, got.Load())
		}
	}
	for _, key := range objecttest.AwkwardKeys {
		if err := client.Delete(t.Context(), penstock.Name{Bucket: "bucket", Key: key}, penstock.Condition{}); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestNoNode(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	client, err := penstock.New(penstock.Options{Endpoint: listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Stat(t.Context(), name)
	wantKind(t, err, penstock.Unavailable)
	want := "no node at http://" + listener.Addr().String() + ": start one with `penstock serve`"
	if err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestStrangers(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(true)
	}))
	defer other.Close()
	for what, handler := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) },
		"a web site": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>welcome</html>") },
		"a teapot":   func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusTeapot) },
	} {
		client, _ := link(t, handler)
		if _, err := client.Stat(t.Context(), name); !penstock.Is(err, penstock.Internal) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := client.Bucket(t.Context(), "photos"); !penstock.Is(err, penstock.Internal) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if leaked.Load() {
		t.Error("the client followed a redirect")
	}
}

func TestTLSIsNotRepeated(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			asked.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	client, err := penstock.New(penstock.Options{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Stat(t.Context(), name)
	wantKind(t, err, penstock.Unavailable)
	var unknown *tls.CertificateVerificationError
	if !errors.As(err, &unknown) || asked.Load() != 1 {
		t.Errorf("%v after %d connections", err, asked.Load())
	}
}
