package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// prefix begins the names of all directories of these tests; the process id of
// the test follows, so that one run leaves those of another alone.
const prefix = "penstock-chaos-"

// root is where the tests put things.
func root() string {
	if dir := os.Getenv("PENSTOCK_CHAOS_DIR"); dir != "" {
		return dir
	}
	return os.TempDir()
}

// newDir returns a fresh directory that is removed after the test.
func newDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(root(), fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// sweep removes what runs of ours have left behind for which gone holds: nodes,
// then mounts, loop devices and directories.
func sweep(gone func(pid int) bool) {
	ours := func(path string) bool {
		rest, ok := strings.CutPrefix(path, filepath.Join(root(), prefix))
		digits, _, ok2 := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(digits)
		return ok && ok2 && err == nil && gone(pid)
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		data, _ := os.ReadFile(file)
		for _, arg := range strings.Split(string(data), "\x00") {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && ours(arg) && pid != os.Getpid() {
				_ = unix.Kill(pid, unix.SIGKILL)
				break
			}
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for _, line := range strings.Split(string(mounts), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && ours(fields[1]) {
			_ = unix.Unmount(fields[1], unix.MNT_DETACH)
		}
	}
	devices, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range devices {
		if image, err := os.ReadFile(file); err == nil && ours(strings.TrimSpace(string(image))) {
			_, _ = run("losetup", "--detach", "/dev/"+strings.Split(file, "/")[3])
		}
	}
	dirs, _ := filepath.Glob(filepath.Join(root(), prefix+"*"))
	for _, dir := range dirs {
		if ours(dir) {
			os.RemoveAll(dir)
		}
	}
}

// dead reports whether no process has the id.
func dead(pid int) bool { return unix.Kill(pid, 0) == unix.ESRCH }
