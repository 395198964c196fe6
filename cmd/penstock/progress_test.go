package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/tree"
)

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.update(1, 2, "")
	if out.Len() != 0 {
		t.Errorf("short work says %q", out.String())
	}
	p.start = p.start.Add(-20 * time.Second)
	p.last = p.start
	p.update(50<<20, 100<<20, "no damage")
	p.update(51<<20, 100<<20, "no damage") // too soon
	p.clear()
	const want = " 50%  50MiB of 100MiB  2.5MiB/s  20s left  no damage\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestProgressOnTerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.terminal, p.every = true, 0
	p.update(1, 2, "")
	p.clear()
	p.clear()
	if got := out.String(); !strings.HasPrefix(got, "\r\x1b[K[============            ]  50%") || !strings.HasSuffix(got, "\r\x1b[K") || strings.Contains(got, "\n") {
		t.Errorf("%q", got)
	}
	for _, tt := range []struct{ done, total int64 }{{0, 0}, {5, 0}, {-1, 10}, {20, 10}, {1 << 62, 1<<63 - 1}} {
		if got := bar(tt.done, tt.total); len(got) != 26 {
			t.Errorf("%d of %d is drawn %q", tt.done, tt.total, got)
		}
	}
}

func TestProgressOfTree(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	state := tree.State{Report: tree.Report{Files: 100, Bytes: 1 << 20, Unchanged: 50, Elapsed: 10 * time.Second}, UnchangedBytes: 1 << 20}
	for _, tt := range []struct {
		files, bytes, failed int64
		want                 string
	}{
		{0, 0, 0, "150 files  102.4KiB/s  1MiB\n"},
		{300, 4 << 20, 0, " 50%  150/300 files  102.4KiB/s  17s left  1MiB\n"},
		{300, 4 << 20, 2, " 50%  152/300 files  102.4KiB/s  17s left  1MiB  2 failed\n"},
		{10, 4 << 10, 0, "100%  150/150 files  102.4KiB/s  1MiB\n"}, // it has grown since it was counted
	} {
		out.Reset()
		p.last = time.Time{}
		state.TotalFiles, state.TotalBytes, state.Failed = tt.files, tt.bytes, tt.failed
		p.tree(state)
		if out.String() != tt.want {
			t.Errorf("%q, want %q", out.String(), tt.want)
		}
	}
	p.terminal, p.width, p.last = true, 40, time.Time{}
	out.Reset()
	p.tree(state)
	if got := out.String(); len(got) != len("\r\x1b[K")+39 {
		t.Errorf("%q does not fit on a line", got)
	}
}
