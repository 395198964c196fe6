package server_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/server"
)

// certify returns a certificate with a serial number, and its key, as files hold
// them.
func certify(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs})
}

// replace puts a file in another's place, as tools that renew certificates do.
func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert1, key1 := certify(t, 1)
	cert2, key2 := certify(t, 2)
	replace(t, certFile, cert1)
	replace(t, keyFile, key1)
	now := time.Now()
	var log bytes.Buffer
	get, err := server.OpenCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		pair, err := get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.SerialNumber.Int64()
	}
	steps := []struct {
		what    string
		change  func()
		want    int64
		logged  string // at most once, then nothing more
		instant bool   // less than a second after the last one
	}{
		{what: "nothing new", change: func() {}, want: 1},
		{what: "the certificate without its key", change: func() { replace(t, certFile, cert2) }, want: 1, logged: "cannot be used"},
		{what: "the same again", change: func() {}, want: 1},
		{what: "both, too soon", change: func() { replace(t, keyFile, key2) }, want: 1, instant: true},
		{what: "both", change: func() {}, want: 2, logged: "was read again"},
		{what: "nonsense", change: func() { replace(t, certFile, []byte("nonsense")) }, want: 2, logged: "cannot be used"},
		{what: "another nonsense, the same problem", change: func() { replace(t, certFile, []byte("drivel, too")) }, want: 2},
		{what: "no file", change: func() { os.Remove(certFile) }, want: 2, logged: "no such file"},
		{what: "back", change: func() { replace(t, certFile, cert2) }, want: 2, logged: "was read again"},
		{what: "back to the first", change: func() { replace(t, certFile, cert1); replace(t, keyFile, key1) }, want: 1, logged: "was read again"},
	}
	for _, step := range steps {
		log.Reset()
		if !step.instant {
			now = now.Add(time.Second)
		}
		step.change()
		if got := serial(); got != step.want {
			t.Errorf("%s: the certificate is %d, want %d", step.what, got, step.want)
		}
		if said := log.String(); (said == "") != (step.logged == "") || !strings.Contains(said, step.logged) {
			t.Errorf("%s: the log says %q, want %q", step.what, said, step.logged)
		}
	}
}

// TestCertificateWhileServing renews the certificate of a node that serves.
func TestCertificateWhileServing(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert1, key1 := certify(t, 1)
	cert2, key2 := certify(t, 2)
	replace(t, certFile, cert1)
	replace(t, keyFile, key1)
	s := start(t, server.Options{Data: []server.Data{{Dir: filepath.Join(dir, "data")}}, TLSCert: certFile, TLSKey: keyFile})
	serial := func(trusted []byte) int64 {
		t.Helper()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(trusted)
		c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "localhost"}}).DialContext(context.Background(), "tcp", s.Address)
		if err != nil {
			return 0
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(cert1); got != 1 {
		t.Fatalf("the certificate is %d", got)
	}
	replace(t, certFile, cert2)
	replace(t, keyFile, key2)
	for serial(cert2) != 2 { // the node looks once a second; go test ends this if it never does
	}
}
