package misbehave

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Deaf is an address to which connecting takes for ever: the queue of those who wait to
// be accepted is full, and nobody accepts.
type Deaf struct {
	Addr string // host and port

	fd      int
	waiting []net.Conn
}

// NewDeaf makes one on the loopback. The caller closes it.
func NewDeaf() (*Deaf, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := &Deaf{fd: fd}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, d.broken(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		return nil, d.broken(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return nil, d.broken(err)
	}
	at, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return nil, d.broken(fmt.Errorf("an address of type %T", name))
	}
	d.Addr = fmt.Sprintf("127.0.0.1:%d", at.Port)
	for range 8 { // as many as it takes until one has to wait
		conn, err := net.DialTimeout("tcp", d.Addr, 100*time.Millisecond)
		if err != nil {
			return d, nil
		}
		d.waiting = append(d.waiting, conn)
	}
	return nil, d.broken(fmt.Errorf("the queue of a socket without one does not fill"))
}

func (d *Deaf) broken(err error) error {
	d.Close()
	return err
}

// Close gives the address back.
func (d *Deaf) Close() {
	for _, conn := range d.waiting {
		conn.Close()
	}
	unix.Close(d.fd) //nolint:errcheck // nothing was written
}

// NoSuchName is a lookup that finds no name.
func NoSuchName(_ context.Context, host string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}
