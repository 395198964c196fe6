package door_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/door"
)

// echo answers with as many bytes as the path says, in one piece, behind a header of as
// many bytes as the query says.
func echo(d *door.Door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var x door.Exchange
		x.Begin(d, w, r)
		size, _ := strconv.Atoi(r.URL.Path[1:])
		head, _ := strconv.Atoi(r.URL.RawQuery)
		h := x.Header()
		h.Set("Content-Type", "text/plain")
		h.Set("Content-Length", strconv.Itoa(size))
		h.Set("X-Long", strings.Repeat("h", head))
		x.Write(content(size)) //nolint:errcheck // the client notices
	})
}

func content(size int) []byte { return bytes.Repeat([]byte("0123456789abcde\n"), size/16+1)[:size] }

func listen(t *testing.T) *net.TCPConn {
	t.Helper()
	d, err := door.New(door.Options{})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := d.Server(echo(d))
	done := make(chan error)
	go func() { done <- server.Serve(d.Listen(inner, true)) }()
	client, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return client.(*net.TCPConn)
}

// TestAnswersAreWhole asks for bodies and headers of all sizes around those of
// net/http's buffers, and awaits each answer before it goes on: nothing may stay behind.
func TestAnswersAreWhole(t *testing.T) {
	client := listen(t)
	r := bufio.NewReader(client)
	for _, head := range []int{0, 100, 1800, 3000, 3900, 4100, 9000} {
		for size := 0; size < 10000; size += 61 {
			ask(t, client, r, size, head)
		}
		for _, size := range []int{2047, 2048, 4095, 4096, 4097, 8191, 8192, 8193, 100_000, 1 << 20, 1<<20 + 1, 3 << 20} {
			ask(t, client, r, size, head)
		}
	}
	for head := 3600; head < 4100; head++ { // the header alone ends around the buffer's end
		ask(t, client, r, 0, head)
		ask(t, client, r, 2048, head)
	}
}

func ask(t *testing.T, client *net.TCPConn, r *bufio.Reader, size, head int) {
	t.Helper()
	if _, err := fmt.Fprintf(client, "GET /%d?%d HTTP/1.1\r\nHost: a\r\n\r\n", size, head); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("%d bytes behind %d: %v", size, head, err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil || !bytes.Equal(got, content(size)) || len(answer.Header.Get("X-Long")) != head {
		t.Fatalf("%d bytes behind %d: got %d, %v", size, head, len(got), err)
	}
}

// TestSmallAnswerIsOneSegment keeps a small answer from being sent in two pieces, each
// with a price of its own.
func TestSmallAnswerIsOneSegment(t *testing.T) {
	client := listen(t)
	r := bufio.NewReader(client)
	const answers = 100
	before := segments(t, client)
	for range answers {
		ask(t, client, r, 4<<10, 0)
	}
	if n := segments(t, client) - before; n > answers*11/10 {
		t.Errorf("%d answers came in %d segments", answers, n)
	}
}

func segments(t *testing.T, c *net.TCPConn) (n uint32) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		n = info.Data_segs_in
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
