package httpapi

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Listener bounds the connections that are open at once. One more is told so and
// closed: a client that waits in the kernel's queue cannot know whether the node
// is busy or gone.
//
// It hands out the connections of the inner listener as they are, if those are
// TCP, inside a type that keeps their ReadFrom, and so sendfile.
type Listener struct {
	net.Listener
	max     int64
	open    *atomic.Int64 // shared by all listeners of the door
	refused func()
	plain   bool // the answer may go out as it is, without TLS

	farewells chan struct{} // bounds the goroutines that say it
	wait      sync.WaitGroup
}

// Listen returns a listener with the door's bound on connections. Set plain if no
// TLS is spoken on it. The caller closes it.
func (a *API) Listen(inner net.Listener, plain bool) *Listener {
	return &Listener{
		Listener: inner, max: int64(a.limits.Connections), open: &a.conns, plain: plain,
		refused: a.metrics.refusedConns.Inc, farewells: make(chan struct{}, maxFarewells),
	}
}

const (
	maxFarewells = 64
	farewellTime = time.Second
)

const refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nX-Penstock-Error: Busy\r\n" +
	"Content-Type: application/json\r\nContent-Length: 68\r\n\r\n" + refusalBody

const refusalBody = `{"error":{"kind":"Busy","message":"too many connections are open"}}` + "\n"

// Accept waits for a connection within the bound.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.max {
			if tcp, ok := c.(*net.TCPConn); ok {
				return &tcpConn{TCPConn: tcp, listener: l}, nil
			}
			return &conn{Conn: c, listener: l}, nil
		}
		l.open.Add(-1)
		l.refused()
		l.refuse(c)
	}
}

// Close closes the inner listener and waits for the farewells.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	l.wait.Wait()
	return err
}

// refuse says why and closes, if there is room for one more goroutine to do so:
// closing at once, with the request unread, would often reset the connection
// before the client has read the answer.
func (l *Listener) refuse(c net.Conn) {
	if !l.plain {
		c.Close()
		return
	}
	select {
	case l.farewells <- struct{}{}:
	default:
		c.Close()
		return
	}
	l.wait.Go(func() {
		defer func() { <-l.farewells }()
		defer c.Close()
		c.SetDeadline(time.Now().Add(farewellTime))
		if _, err := io.WriteString(c, refusal); err != nil {
			return
		}
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
		io.Copy(io.Discard, io.LimitReader(c, maxSmallBody))
	})
}

// tcpConn is a TCP connection that is counted. It embeds the pointer to have all
// its methods; ReadFrom is one of them.
type tcpConn struct {
	*net.TCPConn
	listener *Listener
	once     sync.Once
}

func (c *tcpConn) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.TCPConn.Close()
}

type conn struct {
	net.Conn
	listener *Listener
	once     sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.Conn.Close()
}
