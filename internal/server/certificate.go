package server

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// certificate is the node's TLS certificate, read again when its files change:
// certificates run out sooner than nodes are restarted. Files that cannot be used,
// such as a new certificate whose key is still the old one, leave things as they
// are.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	clock             func() time.Time

	current atomic.Pointer[tls.Certificate]

	mu      sync.Mutex // held by the one handshake that looks at the files
	looked  time.Time
	files   [2]os.FileInfo // as they were when current was read
	problem string         // what was last said to be wrong with them
}

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

func openCertificate(certFile, keyFile string, log *slog.Logger, clock func() time.Time) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log, clock: clock, looked: clock()}
	files, err := c.stat()
	if err != nil {
		return nil, err
	}
	return c, c.load(files)
}

// get is for tls.Config. While one handshake looks at the files the others go on
// with what there is.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.mu.TryLock() {
		if now := c.clock(); now.Sub(c.looked) >= lookEvery {
			c.looked = now
			c.look()
		}
		c.mu.Unlock()
	}
	return c.current.Load(), nil
}

// look reads the files if they are not those that were read last. After a failure
// it tries again each time, and says so when there is something new to say.
func (c *certificate) look() {
	files, err := c.stat()
	if err == nil {
		if same(files[0], c.files[0]) && same(files[1], c.files[1]) {
			c.problem = ""
			return
		}
		err = c.load(files)
	}
	if err == nil {
		c.problem = ""
		c.log.Info("the TLS certificate was read again", "file", c.certFile, "until", c.current.Load().Leaf.NotAfter)
	} else if c.problem != err.Error() {
		c.problem = err.Error()
		c.log.Error("the new TLS certificate cannot be used; the old one stays", "file", c.certFile, "error", err)
	}
}

// stat is called before load: what changes in between shows the next time.
func (c *certificate) stat() (files [2]os.FileInfo, err error) {
	if files[0], err = os.Stat(c.certFile); err == nil {
		files[1], err = os.Stat(c.keyFile)
	}
	return files, err
}

func (c *certificate) load(files [2]os.FileInfo) error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	c.files = files
	c.current.Store(&pair)
	return nil
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
