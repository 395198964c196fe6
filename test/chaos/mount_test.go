package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// volume is a file system of our own: an image on a loop device, or memory.
type volume struct {
	tb     testing.TB
	dir    string // where it is mounted
	device string // empty: tmpfs
	kind   string
}

// newVolume makes a file system of the given kind and size, and mounts it. It is
// gone when the test is.
func newVolume(tb testing.TB, kind, size string) *volume {
	tb.Helper()
	needRoot(tb)
	base := newDir(tb)
	v := &volume{tb: tb, kind: kind, dir: filepath.Join(base, "mount")}
	if err := os.Mkdir(v.dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	image := filepath.Join(base, "image")
	mustRun(tb, "truncate", "--size", size, image)
	if kind == "ext4" {
		mustRun(tb, "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
	} else {
		mustRun(tb, "mkfs."+kind, "-q", "-f", image)
	}
	v.device = mustRun(tb, "losetup", "--find", "--show", image)
	tb.Cleanup(func() {
		if out, err := run("losetup", "--detach", v.device); err != nil {
			tb.Errorf("%v: %s", err, out)
		}
	})
	tb.Cleanup(v.unmount)
	v.mount()
	return v
}

// newMemoryVolume mounts a tmpfs, a file system in memory, with its options.
func newMemoryVolume(tb testing.TB, options string) *volume {
	tb.Helper()
	needRoot(tb)
	v := &volume{tb: tb, kind: "tmpfs", dir: filepath.Join(newDir(tb), "mount")}
	if err := os.Mkdir(v.dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := unix.Mount("penstock", v.dir, "tmpfs", 0, options); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(v.unmount)
	return v
}

func needRoot(tb testing.TB) {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("needs root to mount file systems")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		tb.Skip("needs loop devices")
	}
}

// mount mounts what is on the device. The kernel may still hold the file system
// that was cut, for a moment after it is unmounted, and would mount that again.
func (v *volume) mount() {
	v.tb.Helper()
	for range 200 {
		if err := unix.Mount(v.device, v.dir, v.kind, 0, ""); err != nil {
			v.tb.Fatalf("mount %s at %s: %v", v.device, v.dir, err)
		}
		probe, err := os.CreateTemp(v.dir, "probe")
		if err == nil {
			probe.Close()
			os.Remove(probe.Name())
		}
		if !errors.Is(err, unix.EIO) {
			return
		}
		v.unmount()
		time.Sleep(20 * time.Millisecond) // the kernel has no event for it
	}
	v.tb.Fatalf("mount %s at %s: input/output errors", v.device, v.dir)
}

// unmount waits until nothing is open on the file system any more.
func (v *volume) unmount() {
	v.tb.Helper()
	var err error
	for range 200 {
		err = unix.Unmount(v.dir, 0)
		if err == nil || errors.Is(err, unix.EINVAL) { // not mounted
			return
		}
		time.Sleep(50 * time.Millisecond) // the kernel has no event for it
	}
	v.tb.Errorf("unmount %s: %v", v.dir, err)
	_ = unix.Unmount(v.dir, unix.MNT_DETACH)
}

// remount changes whether the file system may be written.
func (v *volume) remount(readOnly bool) error {
	flags := uintptr(unix.MS_REMOUNT)
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	return unix.Mount("", v.dir, "", flags, "")
}

const (
	fsShutdown        = 0x8004587d // FS_IOC_SHUTDOWN
	shutdownNoLogSync = 2          // what the journal has in memory is lost
)

// cut lets the file system fail from now on, as if the power were gone: nothing
// that is not on the device gets there.
func (v *volume) cut() error {
	dir, err := os.Open(v.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	flag := uint32(shutdownNoLogSync)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), fsShutdown, uintptr(unsafe.Pointer(&flag))); errno != 0 {
		return errno
	}
	return nil
}

func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), err
}

func mustRun(tb testing.TB, name string, args ...string) string {
	tb.Helper()
	out, err := run(name, args...)
	if err != nil {
		tb.Fatalf("%v: %s", err, out)
	}
	return out
}
