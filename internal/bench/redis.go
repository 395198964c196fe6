package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Redis measures a Redis server, or anything that speaks its protocol: SET, GET,
// MGET for batches, and SETs sent together for batches of writes.
type Redis struct {
	Address string // host:port, or the path of a socket
}

// ParseRedis reads an address, with or without redis:// before it.
func ParseRedis(text string) (*Redis, error) {
	address := strings.TrimRight(strings.TrimPrefix(strings.TrimPrefix(text, "redis://"), "unix:"), "/")
	if strings.HasPrefix(address, "/") {
		return &Redis{Address: address}, nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, object.Errorf(object.Invalid, "%q is no address of a Redis server: write 127.0.0.1:6379 or the path of a socket", text)
	}
	return &Redis{Address: address}, nil
}

// Connect opens a connection.
func (d *Redis) Connect(ctx context.Context) (Conn, error) {
	c := &redisConn{driver: d}
	return c, c.dial(ctx)
}

// Close has nothing to do: connections share nothing.
func (d *Redis) Close() {}

type redisConn struct {
	driver *Redis
	conn   net.Conn // nil after an error, until it is needed again
	r      *bufio.Reader
	w      *bufio.Writer
	buffer []byte
	item   collector
}

func (c *redisConn) dial(ctx context.Context) error {
	network := "tcp"
	if strings.HasPrefix(c.driver.Address, "/") {
		network = "unix"
	}
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, c.driver.Address)
	if err != nil {
		return classify(ctx, err)
	}
	c.conn, c.r, c.w = conn, bufio.NewReaderSize(conn, 64<<10), bufio.NewWriterSize(conn, 64<<10)
	if c.buffer == nil {
		c.buffer = make([]byte, 64<<10)
	}
	return nil
}

// exchange sends something and reads the answer. If that fails in any other way
// than by an answer that says so, nobody knows what comes next on the connection
// and it is given up.
func (c *redisConn) exchange(ctx context.Context, send func(), receive func() error) error {
	if ctx.Err() != nil {
		return classify(ctx, ctx.Err())
	}
	if c.conn == nil {
		if err := c.dial(ctx); err != nil {
			return err
		}
	}
	conn := c.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // ends reads and writes
	send()
	err := c.w.Flush()
	if err == nil {
		err = receive()
	}
	var said replyError
	answered := err == nil || errors.As(err, &said) || object.Is(err, object.NotFound)
	if !stop() || !answered {
		conn.Close()
		c.conn = nil
	}
	if answered {
		return err
	}
	return classify(ctx, err)
}

// replyError is an error the server answered with.
type replyError string

// Error returns it.
func (e replyError) Error() string { return "the server says " + string(e) }

// command writes the head of a command; its arguments follow. Errors stay in the
// writer until it is flushed.
func (c *redisConn) command(name string, arguments int) {
	fmt.Fprintf(c.w, "*%d\r\n", arguments+1)
	c.text(name)
}

func (c *redisConn) text(s string) {
	c.length(len(s))
	_, _ = c.w.WriteString(s)
	_, _ = c.w.WriteString("\r\n")
}

func (c *redisConn) length(n int) {
	_ = c.w.WriteByte('$')
	_, _ = c.w.Write(strconv.AppendInt(c.w.AvailableBuffer(), int64(n), 10))
	_, _ = c.w.WriteString("\r\n")
}

func (c *redisConn) set(key string, content []byte) {
	c.command("SET", 2)
	c.text(key)
	c.length(len(content))
	_, _ = c.w.Write(content)
	_, _ = c.w.WriteString("\r\n")
}

// head reads the first line of an answer, which must be of the given type, and
// returns what follows the type.
func (c *redisConn) head(want byte) (string, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(line), "\r\n")
	switch {
	case text == "":
		return "", errors.New("an empty line instead of an answer")
	case text[0] == '-':
		return "", object.Errorf(object.Internal, "%w", replyError(text[1:]))
	case text[0] != want:
		return "", fmt.Errorf("the answer %q instead of one that begins with %q", text, want)
	}
	return text[1:], nil
}

// bulk reads one value into w.
func (c *redisConn) bulk(key string, w io.Writer) error {
	text, err := c.head('$')
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n < -1 || n > MaxSize:
		return fmt.Errorf("%s: a value of length %q", key, text)
	case n == -1:
		return object.Errorf(object.NotFound, "%s does not exist", key)
	}
	switch took, err := io.CopyBuffer(w, onlyReader{io.LimitReader(c.r, n)}, c.buffer); {
	case err != nil:
		return err
	case took < n:
		return io.ErrUnexpectedEOF
	}
	_, err = c.r.Discard(2)
	return err
}

func (c *redisConn) Put(ctx context.Context, key string, content []byte) error {
	return c.exchange(ctx, func() { c.set(key, content) }, func() error {
		_, err := c.head('+')
		return err
	})
}

func (c *redisConn) PutBatch(ctx context.Context, keys []string, contents [][]byte) error {
	send := func() {
		for i, key := range keys {
			c.set(key, contents[i])
		}
	}
	return c.exchange(ctx, send, func() error {
		var refused error
		for range keys {
			_, err := c.head('+')
			var said replyError
			switch {
			case errors.As(err, &said):
				refused = err // the answers to the others come all the same
			case err != nil:
				return err
			}
		}
		return refused
	})
}

func (c *redisConn) Get(ctx context.Context, key string, w io.Writer) error {
	return c.exchange(ctx, func() { c.command("GET", 1); c.text(key) }, func() error { return c.bulk(key, w) })
}

func (c *redisConn) Batch(ctx context.Context, keys []string, item func(content []byte, err error)) error {
	send := func() {
		c.command("MGET", len(keys))
		for _, key := range keys {
			c.text(key)
		}
	}
	return c.exchange(ctx, send, func() error {
		text, err := c.head('*')
		if err != nil {
			return err
		}
		if text != strconv.Itoa(len(keys)) {
			return fmt.Errorf("%s values for %d keys", text, len(keys))
		}
		for _, key := range keys {
			c.item.data = c.item.data[:0]
			err := c.bulk(key, &c.item)
			if err != nil && !object.Is(err, object.NotFound) {
				return err
			}
			item(c.item.data, err)
		}
		return nil
	})
}

func (c *redisConn) Close() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}
