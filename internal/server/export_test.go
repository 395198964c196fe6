package server

import (
	"crypto/tls"
	"log/slog"
	"time"
)

// OpenCertificate is for tests with a clock of their own.
func OpenCertificate(certFile, keyFile string, log *slog.Logger, clock func() time.Time) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	c, err := openCertificate(certFile, keyFile, log, clock)
	return c.get, err
}
