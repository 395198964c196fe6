package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// progress tells people how far long work is: a bar that is redrawn on a
// terminal, a line now and then elsewhere. It draws when it is told something;
// it has no goroutine and no timer.
type progress struct {
	out      io.Writer
	terminal bool
	width    int // of the terminal, in characters; zero if unknown
	every    time.Duration
	start    time.Time
	last     time.Time
	drawn    bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, every: 10 * time.Second, start: time.Now()}
	if f, ok := out.(*os.File); ok {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
			p.terminal, p.every = true, 100*time.Millisecond
		}
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			p.width = int(size.Col)
		}
	}
	if !p.terminal {
		p.last = p.start // short work says nothing
	}
	return p
}

// update says that done of total bytes are behind us.
func (p *progress) update(done, total int64, detail string) {
	p.draw(done, total, func(now time.Time) string { return p.line(now, done, total, detail) })
}

// draw shows a line, behind a bar on a terminal, if it is time for it again.
func (p *progress) draw(done, total int64, line func(now time.Time) string) {
	now := time.Now()
	if now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	if !p.terminal {
		fmt.Fprintln(p.out, line(now))
		return
	}
	text := bar(done, total) + " " + line(now)
	if p.width > 0 && len(text) >= p.width {
		text = text[:p.width-1] // a second line would not be taken off again
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	p.drawn = true
}

// restart begins to measure the rate anew.
func (p *progress) restart() { p.start = time.Now() }

// clear takes the bar off the terminal, so that something else can be printed.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// line describes the state in words.
func (p *progress) line(now time.Time, done, total int64, detail string) string {
	var b strings.Builder
	if total > 0 {
		fmt.Fprintf(&b, "%3.0f%%  %s of %s", 100*float64(done)/float64(total), formatSize(done), formatSize(total))
	} else {
		b.WriteString(formatSize(done))
	}
	if seconds := now.Sub(p.start).Seconds(); seconds > 0 {
		rate := float64(done) / seconds
		fmt.Fprintf(&b, "  %s/s", formatSize(int64(rate)))
		if rate > 0 && total > done {
			fmt.Fprintf(&b, "  %s left", time.Duration(float64(total-done)/rate*1e9).Round(time.Second))
		}
	}
	if detail != "" {
		b.WriteString("  " + detail)
	}
	return b.String()
}

// bar draws how much of total is done.
func bar(done, total int64) string {
	const width = 24
	filled := 0
	if total > 0 {
		filled = int(float64(min(max(done, 0), total)) / float64(total) * width)
	}
	return "[" + strings.Repeat("=", filled) + strings.Repeat(" ", width-filled) + "]"
}
