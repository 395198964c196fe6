package server_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/server"
)

// upload begins a PUT of ten bytes and sends five.
func upload(t *testing.T, s *running) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "PUT /v1/objects/bucket/k HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
	// The server asks for the body when the store does: then the request is under way.
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("%q, %v", line, err)
	}
	io.WriteString(c, "12345")
	return c
}

// TestDrain stops a server with a request under way: it finishes, and is kept.
func TestDrain(t *testing.T) {
	data := []server.Data{{Dir: t.TempDir()}}
	s := start(t, server.Options{Data: data})
	want(t, 201, "PUT", s.URL+"/v1/buckets/bucket", "")
	c := upload(t, s)
	stopped := make(chan error)
	go func() { stopped <- s.stop() }()
	for { // new connections are refused as soon as the stop has begun
		probe, err := net.Dial("tcp", s.Address)
		if err != nil {
			break
		}
		probe.Close()
	}
	select {
	case err := <-stopped:
		t.Fatalf("the server did not wait: %v", err)
	default:
	}
	io.WriteString(c, "67890")
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	for err == nil && answer.StatusCode == 100 {
		answer, err = http.ReadResponse(bufio.NewReader(c), nil)
	}
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("the request under way: %v, %v", answer, err)
	}
	answer.Body.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	again := start(t, server.Options{Data: data})
	if got := want(t, 200, "GET", again.URL+"/v1/objects/bucket/k", ""); got != "1234567890" {
		t.Errorf("the object is %q", got)
	}
}

// TestCutOff stops a server with a request that does not end.
func TestCutOff(t *testing.T) {
	data := []server.Data{{Dir: t.TempDir()}}
	s := start(t, server.Options{Data: data, Drain: time.Millisecond})
	want(t, 201, "PUT", s.URL+"/v1/buckets/bucket", "")
	c := upload(t, s)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if answer, err := io.ReadAll(c); strings.Contains(string(answer), " 200 ") {
		t.Errorf("the request that was cut off: %q, %v", answer, err)
	}
	again := start(t, server.Options{Data: data})
	want(t, 404, "GET", again.URL+"/v1/objects/bucket/k", "")
}

func TestTLS(t *testing.T) {
	cert, key := selfSigned(t)
	s := start(t, server.Options{Data: []server.Data{{Dir: t.TempDir()}}, TLSCert: cert, TLSKey: key})
	if !strings.HasPrefix(s.URL, "https://") {
		t.Errorf("the URL is %s", s.URL)
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get(s.URL + "/v1/buckets")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 200 || answer.ProtoMajor != 1 {
		t.Errorf("%d over %s", answer.StatusCode, answer.Proto)
	}
	want(t, 400, "GET", "http://"+s.Address+"/v1/buckets", "") // plain HTTP, says net/http
}

func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(dir+"/"+file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir + "/cert.pem", dir + "/key.pem"
}
