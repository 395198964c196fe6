package penstock_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"penstock.dev/penstock"
)

// endless gives bytes for ever and remembers whether it is being read.
type endless struct {
	over atomic.Bool
	late atomic.Bool
}

func (e *endless) Read(p []byte) (int, error) {
	if e.over.Load() {
		e.late.Store(true)
	}
	return len(p), nil
}

// TestPutLetsGo shows that a Put that is refused early does not go on reading.
func TestPutLetsGo(t *testing.T) {
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 100)
		fail(w, 403, "Denied", "not yours")
	})
	for range 20 {
		body := new(endless)
		_, err := client.Put(t.Context(), name, body, penstock.PutOptions{})
		body.over.Store(true)
		if !penstock.Is(err, penstock.Denied) && !penstock.Is(err, penstock.Unavailable) {
			t.Errorf("put: %v", err)
		}
		client.Close()
		if body.late.Load() {
			t.Fatal("the body was read after Put returned")
		}
	}
}

// TestRefusedUnread shows that a large body is not sent to a node that does not
// want it.
func TestRefusedUnread(t *testing.T) {
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) { fail(w, 403, "Denied", "not yours") })
	body := new(endless)
	body.over.Store(true)
	_, err := client.Put(t.Context(), name, body, penstock.PutOptions{})
	wantKind(t, err, penstock.Denied)
	if body.late.Load() {
		t.Error("the body was read")
	}
}

func TestPutReaderFails(t *testing.T) {
	client, _ := link(t, stored)
	broken := errors.New("the tape is torn")
	_, err := client.Put(t.Context(), name, io.MultiReader(strings.NewReader("abc"), readError{broken}), penstock.PutOptions{})
	if !errors.Is(err, broken) {
		t.Errorf("%v does not hold the reader's own error", err)
	}
}

type readError struct{ err error }

func (r readError) Read([]byte) (int, error) { return 0, r.err }

func TestCanceled(t *testing.T) {
	waiting := make(chan struct{}, 1)
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		waiting <- struct{}{}
		<-r.Context().Done()
	})
	for what, ask := range map[string]func(ctx context.Context) error{
		"stat": func(ctx context.Context) error { _, err := client.Stat(ctx, name); return err },
		"get":  func(ctx context.Context) error { _, err := client.Get(ctx, name); return err },
		"list": func(ctx context.Context) error {
			for _, err := range client.List(ctx, "photos", penstock.ListOptions{}) {
				return err
			}
			return nil
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- ask(ctx) }()
		<-waiting
		cancel()
		if err := <-done; !penstock.Is(err, penstock.Canceled) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCanceledPause shows that the last error is told when there is no time for
// another attempt.
func TestCanceledPause(t *testing.T) {
	client, _ := link(t, func(w http.ResponseWriter, r *http.Request) { fail(w, 503, "Busy", "come back later") })
	ctx, cancel := context.WithCancel(t.Context())
	client.SetPause(func(context.Context, time.Duration) error { cancel(); return ctx.Err() })
	_, err := client.Stat(ctx, name)
	if err == nil || !penstock.Is(err, penstock.Unavailable) && !penstock.Is(err, penstock.Busy) {
		t.Errorf("%v", err)
	}
}

// TestNoTimeToWait shows that a pause that would outlast the context is not begun.
func TestNoTimeToWait(t *testing.T) {
	client, pauses := link(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "10")
		fail(w, 503, "Busy", "come back later")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := client.Get(ctx, name)
	wantKind(t, err, penstock.Busy)
	if len(*pauses) != 0 {
		t.Errorf("paused %v", *pauses)
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                         "http://127.0.0.1:7400",
		"node:7400":                "http://node:7400",
		"http://node:7400/":        "http://node:7400",
		"https://node/penstock/":   "https://node/penstock",
		"http://[::1]:7400":        "http://[::1]:7400",
		"ftp://node":               "",
		"http://":                  "",
		"http://user:pw@node:7400": "",
		"http://node:7400/?x=y":    "",
		"http://no de":             "",
	} {
		client, err := penstock.New(penstock.Options{Endpoint: endpoint})
		switch {
		case want == "" && !penstock.Is(err, penstock.Invalid):
			t.Errorf("%q: %v, want Invalid", endpoint, err)
		case want != "" && err != nil:
			t.Errorf("%q: %v", endpoint, err)
		case want != "" && client.Endpoint() != want:
			t.Errorf("%q is %s", endpoint, client.Endpoint())
		}
	}
}

// TestHeadersAreGuarded shows that nothing the caller gives can become another
// header.
func TestHeadersAreGuarded(t *testing.T) {
	client, _ := link(t, stored)
	for _, opts := range []penstock.PutOptions{
		{ContentType: "text/plain\r\nX-Penstock-Copy-Source: /a/b"},
		{Metadata: map[string]string{"a": "b\r\nc: d"}},
		{Metadata: map[string]string{"a b": "c"}},
		{Metadata: map[string]string{"": "c"}},
		{Metadata: map[string]string{"a": " padded "}},
		{Condition: penstock.Condition{IfMatch: "\"\r\n"}},
		{Condition: penstock.Condition{IfMatch: `a","b`}},
	} {
		_, err := client.Put(t.Context(), name, strings.NewReader("x"), opts)
		if !penstock.Is(err, penstock.Invalid) {
			t.Errorf("%+v: %v, want Invalid", opts, err)
		}
	}
	if _, err := penstock.New(penstock.Options{Token: "a\nb"}); !penstock.Is(err, penstock.Invalid) {
		t.Errorf("a token of two lines: %v", err)
	}
}
