package misbehave

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Pass hands on what the real server says.
func Pass(w http.ResponseWriter, r *http.Request, forward Forward) {
	resp, ok := ask(w, r, forward)
	if !ok {
		return
	}
	defer resp.Body.Close()
	header(w, resp)
	io.Copy(w, resp.Body) //nolint:errcheck // the client sees it
}

// ask gets the real answer, or answers 502.
func ask(w http.ResponseWriter, r *http.Request, forward Forward) (*http.Response, bool) {
	resp, err := forward(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return nil, false
	}
	return resp, true
}

func header(w http.ResponseWriter, resp *http.Response) {
	maps.Copy(w.Header(), resp.Header)
	if resp.ContentLength >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	w.WriteHeader(resp.StatusCode)
}

// Status answers with a code, some headers given as "Name: value", and a body.
func Status(code int, body string, headers ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ Forward) {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		io.WriteString(w, body) //nolint:errcheck // the client sees it
	}
}

// s3Error is how S3 says what is wrong.
func s3Error(code string) string {
	return fmt.Sprintf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>injected</Message></Error>", code)
}

// SlowDown is S3's way to ask for less.
func SlowDown() Fault {
	return Status(http.StatusServiceUnavailable, s3Error("SlowDown"), "Content-Type: application/xml")
}

// TooMany is a 429 that says for how long.
func TooMany(after time.Duration) Fault {
	return Status(http.StatusTooManyRequests, "", "Retry-After: "+strconv.Itoa(int(after/time.Second)))
}

// Failure is a 500.
func Failure() Fault {
	return Status(http.StatusInternalServerError, s3Error("InternalError"), "Content-Type: application/xml")
}

// ErrorInside is a 200 whose body is an error.
func ErrorInside() Fault {
	return Status(http.StatusOK, s3Error("InternalError"), "Content-Type: application/xml")
}

// Skewed is S3's answer to a clock that is wrong.
func Skewed() Fault {
	return Status(http.StatusForbidden, s3Error("RequestTimeTooSkewed"), "Content-Type: application/xml")
}

// Expired is S3's answer to credentials whose time is over.
func Expired() Fault {
	return Status(http.StatusBadRequest, s3Error("ExpiredToken"), "Content-Type: application/xml")
}

// Rewrite changes the body of the real answer, which must fit into memory: a listing that
// is cut, or whose token leads back to its beginning.
func Rewrite(change func(body []byte) []byte) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward Forward) {
		resp, ok := ask(w, r, forward)
		if !ok {
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		body = change(body)
		resp.ContentLength = int64(len(body))
		header(w, resp)
		w.Write(body) //nolint:errcheck // the client sees it
	}
}

// HangBefore answers nothing at all.
func HangBefore() Fault {
	return func(_ http.ResponseWriter, r *http.Request, _ Forward) { <-r.Context().Done() }
}

// HangAfter sends the header and n bytes of the body, and then nothing.
func HangAfter(n int64) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward Forward) {
		if part(w, r, forward, n) {
			<-r.Context().Done()
		}
	}
}

// part sends the header and n bytes of the real answer.
func part(w http.ResponseWriter, r *http.Request, forward Forward, n int64) bool {
	resp, ok := ask(w, r, forward)
	if !ok {
		return false
	}
	defer resp.Body.Close()
	header(w, resp)
	io.CopyN(w, resp.Body, n)             //nolint:errcheck // it may have less
	http.NewResponseController(w).Flush() //nolint:errcheck // the client sees it
	return true
}

// Reset breaks the connection after n bytes of the body, so that the client sees a reset.
func Reset(n int64) Fault { return broken(n, true) }

// Short ends the connection in an orderly way after n bytes of a body that was announced
// to be longer.
func Short(n int64) Fault { return broken(n, false) }

func broken(n int64, reset bool) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward Forward) {
		if !part(w, r, forward, n) {
			return
		}
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		buf.Flush() //nolint:errcheck // it is to break
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			tcp.SetLinger(0) //nolint:errcheck // then it is an orderly end
		}
	}
}

// Long sends more bytes than the object has, in chunks that announce no length.
func Long(extra int) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward Forward) {
		resp, ok := ask(w, r, forward)
		if !ok {
			return
		}
		defer resp.Body.Close()
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		header(w, resp)
		io.Copy(w, resp.Body)                         //nolint:errcheck // the client sees it
		io.WriteString(w, strings.Repeat("!", extra)) //nolint:errcheck // the client sees it
	}
}

// WrongLength announces a length that is off by delta, and sends what there is.
func WrongLength(delta int64) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward Forward) {
		resp, ok := ask(w, r, forward)
		if !ok {
			return
		}
		defer resp.Body.Close()
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		resp.Header.Set("Content-Length", strconv.FormatInt(max(resp.ContentLength+delta, 0), 10))
		fmt.Fprintf(buf, "HTTP/1.1 %d %s\r\n", resp.StatusCode, http.StatusText(resp.StatusCode))
		resp.Header.Write(buf)      //nolint:errcheck // the client sees it
		io.WriteString(buf, "\r\n") //nolint:errcheck // the client sees it
		io.Copy(buf, resp.Body)     //nolint:errcheck // the client sees it
		buf.Flush()                 //nolint:errcheck // the client sees it
	}
}

// Header changes headers of the real answer, given as "Name: value"; without a value it
// removes one. "ETag: \"other\"" makes a range one of another state.
func Header(headers ...string) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward Forward) {
		Pass(w, r, func(r *http.Request) (*http.Response, error) {
			resp, err := forward(r)
			if err != nil {
				return nil, err
			}
			for _, h := range headers {
				if name, value, ok := strings.Cut(h, ": "); ok {
					resp.Header.Set(name, value)
				} else {
					resp.Header.Del(strings.TrimSuffix(h, ":"))
				}
			}
			return resp, nil
		})
	}
}

// WithoutRequest passes the request on without some of its headers: a server that does
// not know ranges or conditions.
func WithoutRequest(names ...string) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward Forward) {
		for _, name := range names {
			r.Header.Del(name)
		}
		Pass(w, r, forward)
	}
}

// Redirect sends the client elsewhere; to the same place, if the location is empty, so
// that it goes in circles.
func Redirect(location string) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ Forward) {
		to := location
		if to == "" {
			to = r.URL.RequestURI()
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}
}

// Drip sends the body in pieces of n bytes, with a pause after each.
func Drip(n int64, pause time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward Forward) {
		resp, ok := ask(w, r, forward)
		if !ok {
			return
		}
		defer resp.Body.Close()
		header(w, resp)
		flush := http.NewResponseController(w)
		for {
			if _, err := io.CopyN(w, resp.Body, n); err != nil || flush.Flush() != nil {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-time.After(pause):
			}
		}
	}
}
