package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// conn is a connection that is kept. It belongs to one goroutine.
type conn struct {
	net.Conn
	signer
	r    *bufio.Reader
	head []byte
	rest []byte
}

func dial(address string) (*conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, signer: signer{host: address}, r: bufio.NewReaderSize(c, 32<<10), rest: make([]byte, 256<<10)}, nil
}

// do asks, with a body in pieces, and returns the length of the answer's body. If into
// is not nil the body is put there.
func (c *conn) do(r *request, into *bytes.Buffer, body ...[]byte) (int64, error) {
	c.head = c.append(c.head[:0], r)
	if len(body) == 1 && len(body[0]) <= 16<<10 {
		c.head = append(c.head, body[0]...)
		body = nil
	}
	if _, err := c.Write(c.head); err != nil {
		return 0, err
	}
	var broken error // who refuses a body may have said why
	for _, piece := range body {
		if _, broken = c.Write(piece); broken != nil {
			break
		}
	}
	status, length, err := c.answer()
	if err != nil {
		return 0, errors.Join(broken, err)
	}
	if status/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(c.r, min(max(length, 0), 4<<10)))
		return 0, fmt.Errorf("%s %s: status %d: %s", r.method, r.path, status, text)
	}
	if into != nil {
		into.Reset()
		return io.CopyN(into, c.r, length)
	}
	return length, c.discard(length)
}

// answer reads the head of an answer.
func (c *conn) answer() (status int, length int64, err error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil || len(line) < 12 {
		return 0, 0, fmt.Errorf("no answer: %q, %w", line, err)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, err
	}
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, 0, err
		}
		if len(line) <= 2 {
			return status, length, nil
		}
		const name = "content-length:"
		if len(line) > len(name) && strings.EqualFold(string(line[:len(name)]), name) {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(line[len(name):])), 10, 64); err != nil {
				return 0, 0, err
			}
		}
	}
}

func (c *conn) discard(n int64) error {
	first := min(n, int64(c.r.Buffered()))
	c.r.Discard(int(first)) //nolint:errcheck // they are there
	for n -= first; n > 0; {
		m, err := c.Read(c.rest[:min(n, int64(len(c.rest)))])
		if err != nil {
			return err
		}
		n -= int64(m)
	}
	return nil
}
