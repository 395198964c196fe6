package server

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
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

	S3         string   // host:port of the S3 door; empty for none
	S3Optional bool     // go without it if the port cannot be had
	S3Region   string   // the region S3 clients are told; empty for us-east-1
	S3Domains  []string // host names of the S3 door, for bucket.DOMAIN

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
	S3      string // URL of the S3 door; empty if that is closed

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
	if err := validateData(o.Data); err != nil {
		return err
	}
	if o.Drain < 0 {
		return object.Errorf(object.Invalid, "the time to drain is negative")
	}
	if o.PackSize != 0 && o.PackSize < minPackSize {
		return object.Errorf(object.Invalid, "the size of packs is %d bytes; give at least 1MiB, or 0 to have it chosen", o.PackSize)
	}
	if err := validateListen(o.Listen); err != nil {
		return object.Errorf(object.Invalid, "cannot listen on %q: %w", o.Listen, err)
	}
	if o.S3 != "" {
		if err := validateListen(o.S3); err != nil {
			return object.Errorf(object.Invalid, "cannot listen on %q: %w", o.S3, err)
		}
	}
	if err := o.Limits.Validate(); err != nil {
		return err
	}
	return o.Root.Validate()
}

const (
	minQuota    = 16 << 20 // some packs of the smallest size, and what is kept for deletes and compaction
	minPackSize = 1 << 20  // two of the largest records, and what the store itself takes on the smallest disk
)

// validateData refuses directories that cannot be disks beside each other.
func validateData(all []Data) error {
	paths := make([]string, len(all))
	for i, d := range all {
		if d.Quota < 0 {
			return object.Errorf(object.Invalid, "the quota of %s is negative", d.Dir)
		}
		if d.Quota > 0 && d.Quota < minQuota {
			return object.Errorf(object.Invalid, "the quota of %s is %d bytes; give at least 16MiB, or none", d.Dir, d.Quota)
		}
		if d.FS != nil {
			continue
		}
		if d.Dir == "" {
			return object.Errorf(object.Invalid, "a data directory has no name")
		}
		path, err := resolve(d.Dir)
		if err != nil {
			return object.Errorf(object.Invalid, "%s: %w", d.Dir, err)
		}
		paths[i] = path
		for j, other := range paths[:i] {
			switch {
			case other == "":
			case path == other:
				return object.Errorf(object.Invalid, "data directory %s is given twice", d.Dir)
			case inside(path, other):
				return object.Errorf(object.Invalid, "data directory %s lies inside %s: give directories beside each other", d.Dir, all[j].Dir)
			case inside(other, path):
				return object.Errorf(object.Invalid, "data directory %s lies inside %s: give directories beside each other", all[j].Dir, d.Dir)
			}
		}
	}
	return nil
}

// resolve returns the path of a directory without symbolic links, as far as it
// exists.
func resolve(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	rest := ""
	for parent := path; ; parent = filepath.Dir(parent) {
		if real, err := filepath.EvalSymlinks(parent); err == nil {
			return filepath.Join(real, rest), nil
		}
		if parent == filepath.Dir(parent) {
			return path, nil
		}
		rest = filepath.Join(filepath.Base(parent), rest)
	}
}

// inside reports whether one resolved path lies below another.
func inside(path, parent string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(parent, string(filepath.Separator))+string(filepath.Separator))
}

// validateListen checks an address as far as it can be without the network: the
// host may be a name that resolves only later.
func validateListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
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
