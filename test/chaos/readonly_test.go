package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"penstock.dev/penstock"
)

// The kernel turns a file system read-only when it finds it damaged. Reads go on,
// writes are refused, and nothing is lost when it has been mounted again.
func TestReadOnly(t *testing.T) {
	random := newRandom(t)
	v := newVolume(t, "ext4", "320MiB")
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(v.device), "trigger_fs_error")
	if _, err := os.Stat(trigger); err != nil {
		t.Skipf("the kernel cannot be told to find ext4 damaged: %v", err)
	}
	mustRun(t, "mount", "-o", "remount,errors=remount-ro", v.dir)
	s := newSubject(t, random, filepath.Join(v.dir, "data"))
	s.work(time.Second, func() {
		err := s.ledger.freeze(func() error { return os.WriteFile(trigger, []byte("chaos"), 0o600) })
		if err != nil {
			t.Error(err)
		}
	})
	s.ledger.thaw()
	for i := range 20 {
		key := fmt.Sprint("after/", i)
		if err := s.put(key, randomSize(random)); !penstock.Is(err, penstock.Unavailable) {
			t.Errorf("put on a read-only disk: %v", err)
		}
	}
	for _, key := range s.ledger.keys() {
		found, _, err := look(t.Context(), s.client, s.ledger, key)
		if err == nil {
			err = s.ledger.permit(key, found)
		}
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	s.node.Kill()
	v.unmount()
	if out, err := run("fsck.ext4", "-p", v.device); err != nil && exitCode(err) != 1 { // 1: repaired
		t.Fatalf("%v: %s", err, out)
	}
	v.mount()
	s.start()
	s.checkAll()
	s.waitWritable()
	s.checkSettled()
}

// A file system that was mounted read-only before the start.
func TestStartReadOnly(t *testing.T) {
	random := newRandom(t)
	v := newVolume(t, "ext4", "320MiB")
	s := newSubject(t, random, filepath.Join(v.dir, "data"))
	s.work(time.Second, s.node.Kill)
	if err := v.remount(true); err != nil {
		t.Fatal(err)
	}
	if err := s.node.Start(); err != nil {
		t.Logf("a node refuses to start on a read-only disk: %v", err)
	} else {
		s.checkAll()
		if err := s.put("after", 1000); !penstock.Is(err, penstock.Unavailable) {
			t.Errorf("put on a read-only disk: %v", err)
		}
		if err := v.remount(false); err != nil {
			t.Fatal(err)
		}
		s.waitWritable() // without a restart
		s.node.Kill()
	}
	if err := v.remount(false); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.checkAll()
	s.waitWritable()
}

func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}
