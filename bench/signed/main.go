// Command signed is bench/bare for S3: the least a Go program can do that verifies
// the signature of a request and sends a file. It knows one key pair, no users, no
// rights and no metadata.
//
//	PENSTOCK_ACCESS_KEY=... PENSTOCK_SECRET_KEY=... signed LISTEN DIR
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"penstock.dev/penstock/internal/sigv4"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: signed LISTEN DIR")
		os.Exit(2)
	}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	access, secret := os.Getenv("PENSTOCK_ACCESS_KEY"), os.Getenv("PENSTOCK_SECRET_KEY")
	verifier := sigv4.New(sigv4.Options{Secret: func(key string) (string, bool) { return secret, key == access }})
	fmt.Println(listener.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(listener, &handler{root: os.Args[2], verifier: verifier}))
	os.Exit(1)
}

type handler struct {
	root     string
	verifier *sigv4.Verifier
}

// ServeHTTP answers who signed nothing, too, so that the same handler is a reference
// for requests that nobody signed.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := h.verifier.Verify(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	f, err := os.Open(filepath.Join(h.root, filepath.FromSlash(r.URL.Path)))
	if err != nil {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		http.Error(w, "cannot read", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(st.Size(), 10))
	w.Header().Set("Last-Modified", st.ModTime().UTC().Format(http.TimeFormat))
	io.CopyN(w, f, st.Size()) //nolint:errcheck // the client is gone
}
