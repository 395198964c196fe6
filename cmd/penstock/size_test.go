package main

import "testing"

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "4096": 4096, "4096B": 4096, "64KiB": 64 << 10, "64MiB": 64 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40,
		"1KB": 1000, "1MB": 1e6, "1GB": 1e9, "2TB": 2e12, "1.5GiB": 3 << 29, "0.5KiB": 512, "64 MiB": 64 << 20,
		"9223372036854775807": 1<<63 - 1, "8388607TiB": 8388607 << 40,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "-1", "+1", "1e3", "1/2", "0x10", "1_000", "64M", "64m", "64mib", "64MIB", "64 MB ", "MiB", ".5MiB", "5.MiB", "1.2.3",
		"1.5", "1.5B", "KiBB", "1KiBMiB", "9223372036854775808", "8388608TiB", "99999999999999999999999999MiB", "NaN", "inf", "1\n",
	} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q was taken for %d", text, got)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1: "1B", 1023: "1023B", 1024: "1KiB", 1536: "1.5KiB", 64 << 20: "64MiB", 1<<20 + 1: "1.0MiB", 5 << 40: "5TiB", 1<<63 - 1: "8388608.0TiB",
	} {
		if got := formatSize(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}
