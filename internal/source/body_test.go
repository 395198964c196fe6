package source_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub is a body of some bytes and an end.
type stub struct {
	io.Reader
	end error
}

func (s *stub) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = s.end
	}
	return n, err
}

func (s *stub) Close() error { return nil }

func TestBodyLengths(t *testing.T) {
	for _, tt := range []struct {
		what   string
		sent   string
		end    error
		length int64
		open   bool
		kind   object.Kind // Internal: none
	}{
		{"right", "12345", io.EOF, 5, false, object.Internal},
		{"empty", "", io.EOF, 0, false, object.Internal},
		{"short", "1234", io.EOF, 5, false, object.Corrupt},
		{"cut", "1234", io.ErrUnexpectedEOF, 5, false, object.Corrupt},
		{"long", "123456", io.EOF, 5, false, object.Corrupt},
		{"longer than needed", "123456", io.EOF, 5, true, object.Internal},
		{"unknown", "12345", io.EOF, -1, false, object.Internal},
		{"unknown and cut", "1234", io.ErrUnexpectedEOF, -1, false, object.Corrupt},
		{"reset", "1234", syscall.ECONNRESET, 5, false, object.Unavailable},
	} {
		for _, writeTo := range []bool{false, true} {
			body := source.NewBody(t.Context(), source.Whole{Length: tt.length}, &stub{strings.NewReader(tt.sent), tt.end}, source.BodyOptions{Open: tt.open})
			var buf bytes.Buffer
			var err error
			if writeTo {
				_, err = body.WriteTo(&buf)
			} else {
				_, err = io.Copy(&buf, struct{ io.Reader }{body})
			}
			if tt.kind == object.Internal && (err != nil || buf.String() != tt.sent[:min(5, len(tt.sent))]) {
				t.Errorf("%s: %q, %v", tt.what, &buf, err)
			}
			if tt.kind != object.Internal && !object.Is(err, tt.kind) {
				t.Errorf("%s: %v (%v), want %v", tt.what, err, object.KindOf(err), tt.kind)
			}
			body.Close()
			if _, err := body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("%s: after Close: %v", tt.what, err)
			}
		}
	}
}

// TestBodyIdle lets a server stop, and a reader be slow, which is no fault.
func TestBodyIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		stop := context.AfterFunc(request, func() { r.CloseWithError(request.Err()) })
		defer stop()
		body := source.NewBody(t.Context(), source.Whole{Length: 10}, r, source.BodyOptions{Idle: time.Second, Cancel: cancel})
		go w.Write([]byte("12345")) //nolint:errcheck // a pipe
		if _, err := io.ReadFull(body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // nobody reads
		begin := time.Now()
		if _, err := body.Read(make([]byte, 5)); !object.Is(err, object.Unavailable) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		body.Close()
		w.Close()
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-7": 0, "soon": 0, "99999999": time.Hour, "999999999999999999999": 0,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):       0,
	} {
		if got := source.ParseRetryAfter(header, now); got != want {
			t.Errorf("%q is %v, want %v", header, got, want)
		}
	}
	err := source.Busy(3*time.Second, "throttled")
	if !object.Is(err, object.Busy) || source.RetryAfter(err) != 3*time.Second || !source.Retryable(err) || source.RetryAfter(nil) != 0 || source.Retryable(nil) {
		t.Errorf("%v", err)
	}
}

func TestPublicOnly(t *testing.T) {
	for addr, public := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false,
		"0.0.0.0": false, "0.1.2.3": false, "224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false, "240.0.0.1": false,
		"::1": false, "::": false, "fe80::1": false, "fd00::1": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "2001::1": false,
	} {
		if err := source.PublicOnly(netip.MustParseAddr(addr)); (err == nil) != public {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
