package door

import (
	"context"
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
	refusal string
	refused func()
	plain   bool // the answer may go out as it is, without TLS

	waiters   *sync.Pool    // of *waiter
	farewells chan struct{} // bounds the goroutines that say it
	wait      sync.WaitGroup
}

// Listen returns a listener with the door's bound on connections. Set plain if no
// TLS is spoken on it. The caller closes it.
func (d *Door) Listen(inner net.Listener, plain bool) *Listener {
	return &Listener{
		Listener: inner, max: int64(d.limits.Connections), open: &d.conns, plain: plain && d.refusal != "",
		refusal: d.refusal, refused: d.refused, waiters: &d.waiters, farewells: make(chan struct{}, maxFarewells),
	}
}

const (
	maxFarewells = 64
	farewellTime = time.Second
)

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
		if _, err := io.WriteString(c, l.refusal); err != nil {
			return
		}
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
		io.Copy(io.Discard, io.LimitReader(c, maxLeftover))
	})
}

// tcpConn is a TCP connection that is counted. It embeds the pointer to have all
// its methods; ReadFrom is one of them.
type tcpConn struct {
	*net.TCPConn
	listener *Listener
	once     sync.Once

	holds bool    // what is written next waits for what is written then
	held  *waiter // and is here
}

// waiter is what is held back of an answer.
type waiter struct {
	size int
	room [8 << 10]byte
}

// Write sends what is held back and p in one piece. net/http writes an answer of some
// KiB in two, its header and the beginning of the body first, because its buffer has
// 4 KiB; and to send is what a small answer costs most. What is held is always followed
// by more: see Exchange.Write.
func (c *tcpConn) Write(p []byte) (int, error) {
	if c.holds && len(p) <= maxHeld {
		c.holds = false
		c.held, _ = c.listener.waiters.Get().(*waiter)
		if c.held == nil {
			c.held = new(waiter)
		}
		c.held.size = copy(c.held.room[:], p)
		return len(p), nil
	}
	if c.held == nil {
		return c.TCPConn.Write(p)
	}
	return c.join(p)
}

// join sends p behind what is held.
func (c *tcpConn) join(p []byte) (int, error) {
	first := c.held
	c.held = nil
	defer c.listener.waiters.Put(first)
	if first.size+len(p) <= len(first.room) {
		all := first.room[:first.size+copy(first.room[first.size:], p)]
		n, err := c.TCPConn.Write(all)
		return max(0, n-first.size), err
	}
	n, err := (&net.Buffers{first.room[:first.size], p}).WriteTo(c.TCPConn)
	return max(0, int(n)-first.size), err
}

const maxHeld = 4 << 10 // net/http's buffer

// connKey is where the context of a request has its connection, if that can hold back.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*tcpConn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
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
