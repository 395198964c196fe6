package server

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/httpapi"
	"penstock.dev/penstock/internal/object"
)

// Data is one data directory.
type Data struct {
	Dir   string
	Kind  string // for people: ssd, hdd
	Quota int64  // the most to use, in bytes; zero for all of it

	// FS is used in place of Dir if it is not nil: for tests with failing disks.
	FS disk.FS
}

// Options configure a node. The zero value is one that keeps its data under
// ./penstock-data and listens on loopback.
type Options struct {
	Data   []Data
	Listen string // host:port; port 0 chooses a free one
	Name   string // of the node; the host's name if empty

	TLSCert, TLSKey string // files; both or none

	Root    auth.Credentials // given ones go before those that are kept
	Relaxed bool             // acknowledge writes before they are durable
	Forget  []string         // disks that will never come back

	PackSize int64          // zero lets the store choose
	Limits   httpapi.Limits // zero fields mean defaults
	Drain    time.Duration  // how long requests may go on after a stop; zero means 30 s

	Version string
	Logger  *slog.Logger // nil means silence

	// Ready is called once, when the node serves. It may be nil.
	Ready func(Started)
}

// Started is what can be told of a node that serves.
type Started struct {
	Name    string
	URL     string
	Address string

	// Fresh holds credentials made at this start. They are shown once, here.
	Fresh auth.Credentials
}

// Validate fills in what was left out and reports as Invalid what cannot work.
func (o *Options) Validate() error {
	if len(o.Data) == 0 {
		o.Data = []Data{{Dir: "penstock-data"}}
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:7400"
	}
	if o.Name == "" {
		o.Name, _ = os.Hostname()
	}
	if o.Name == "" {
		o.Name = "penstock"
	}
	if o.Drain == 0 {
		o.Drain = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return object.Errorf(object.Invalid, "TLS needs both a certificate and a key")
	}
	seen := make(map[string]bool)
	for _, d := range o.Data {
		if d.Dir == "" && d.FS == nil {
			return object.Errorf(object.Invalid, "a data directory has no name")
		}
		path, err := filepath.Abs(d.Dir)
		if err != nil {
			return object.Errorf(object.Invalid, "%s: %w", d.Dir, err)
		}
		if d.FS == nil && seen[path] {
			return object.Errorf(object.Invalid, "data directory %s is given twice", d.Dir)
		}
		seen[path] = true
		if d.Quota < 0 {
			return object.Errorf(object.Invalid, "the quota of %s is negative", d.Dir)
		}
	}
	if o.Drain < 0 || o.PackSize < 0 {
		return object.Errorf(object.Invalid, "neither the time to drain nor the size of packs can be negative")
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return object.Errorf(object.Invalid, "cannot listen on %q: %w", o.Listen, err)
	}
	if err := o.Limits.Validate(); err != nil {
		return err
	}
	return o.Root.Validate()
}

// used reports whether any data directory has been one before. A start that is
// refused anyway leaves none behind.
func (o *Options) used() bool {
	for _, d := range o.Data {
		if d.FS != nil {
			return true
		}
		if names, err := os.ReadDir(d.Dir); err != nil || len(names) > 0 {
			return !errors.Is(err, os.ErrNotExist)
		}
	}
	return false
}
