package main

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// checkSystem looks at the kernel, the clock and the limits of this machine.
func (e *examination) checkSystem() {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		e.add("kernel", statusWarn, "cannot be asked: %v", err)
	} else {
		e.add("kernel", statusOK, "%s %s %s", unix.ByteSliceToString(uname.Sysname[:]),
			unix.ByteSliceToString(uname.Release[:]), unix.ByteSliceToString(uname.Machine[:]))
	}
	e.checkClock()
	e.checkOpenFiles()
}

// checkClock warns of a clock that nobody sets: it dates objects and ends leases.
func (e *examination) checkClock() {
	now := time.Now().UTC()
	var timex unix.Timex
	state, err := unix.Adjtimex(&timex)
	switch {
	case now.Year() < 2025:
		e.add("clock", statusFail, "says %s, which cannot be", now.Format(time.RFC3339))
	case err == nil && state == unix.TIME_ERROR:
		e.add("clock", statusWarn, "%s, not synchronised: run an NTP client", now.Format(time.RFC3339))
	default:
		e.add("clock", statusOK, "%s", now.Format(time.RFC3339))
	}
}

// checkOpenFiles looks at the hard limit, which Go programs raise themselves to.
func (e *examination) checkOpenFiles() {
	var limit unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); {
	case err != nil:
		e.add("open files", statusWarn, "limit cannot be read: %v", err)
	case limit.Max < 1024:
		e.add("open files", statusFail, "at most %d: raise it with ulimit -n", limit.Max)
	case limit.Max < 16384:
		e.add("open files", statusWarn, "at most %d: many connections need more (ulimit -n)", limit.Max)
	default:
		e.add("open files", statusOK, "at most %d", limit.Max)
	}
}

// checkData looks at a data directory, or at where it would be made.
func (e *examination) checkData(dir dataDir) {
	path, made := existing(dir.path)
	if made {
		e.add("data", statusOK, "%s will be made in %s", dir.path, path)
	}
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		e.add("data", statusFail, "%s is not a directory", path)
		return
	}
	e.checkFiles(dir.path, path)
	e.checkFileSystem(dir, path)
}

// existing returns the directory itself or its nearest parent that exists, and
// whether it is only a parent.
func existing(path string) (string, bool) {
	for parent := false; ; parent = true {
		if _, err := os.Lstat(path); err == nil || path == "/" || path == "." {
			return path, parent
		}
		path = filepath.Dir(path)
	}
}

// checkFiles does once what the engine does all the time.
func (e *examination) checkFiles(name, path string) {
	f, err := os.CreateTemp(path, ".penstock-doctor-")
	if err != nil {
		e.add("data", statusFail, "%s cannot be written: %v", name, err)
		return
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, 4096)); err != nil {
		e.add("data", statusFail, "%s cannot be written: %v", name, err)
		return
	}
	start := time.Now()
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		e.add("data", statusFail, "%s cannot be synced: %v", name, err)
		return
	}
	e.add("data", statusOK, "%s can be written; a sync took %s", name, time.Since(start).Round(10*time.Microsecond))
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 1<<20); err != nil {
		e.add("fallocate", statusWarn, "%s: not supported (%v): a full disk shows late", name, err)
		return
	}
	e.add("fallocate", statusOK, "%s: supported", name)
}

// checkFileSystem looks at the kind of file system and the room on it.
func (e *examination) checkFileSystem(dir dataDir, path string) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		e.add("file system", statusWarn, "%s cannot be asked: %v", path, err)
		return
	}
	kind, note := fileSystem(int64(st.Type))
	if note == "" {
		e.add("file system", statusOK, "%s is on %s", dir.path, kind)
	} else {
		e.add("file system", statusWarn, "%s is on %s: %s", dir.path, kind, note)
	}
	size, free := int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	s := statusOK
	switch {
	case free < 64<<20:
		s = statusFail
	case free < 1<<30 || free < size/50 || free < dir.quota:
		s = statusWarn
	}
	e.add("free space", s, "%s: %s of %s", dir.path, formatSize(free), formatSize(size))
	if st.Files > 0 { // some file systems make inodes as they need them and say 0
		s := statusOK
		if st.Ffree < 1000 {
			s = statusWarn
		}
		e.add("free inodes", s, "%s: %d of %d", dir.path, st.Ffree, st.Files)
	}
}

// fileSystem names a type of file system, and says what is wrong with it for our
// data.
func fileSystem(magic int64) (kind, note string) {
	const network = "locks and syncs may not do what they say over a network"
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4", ""
	case unix.XFS_SUPER_MAGIC:
		return "xfs", ""
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs", ""
	case 0x2fc12fc1:
		return "zfs", ""
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs", ""
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return "tmpfs", "its files are gone after a reboot"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs", "in a container, mount a volume: its files go with the container"
	case unix.NFS_SUPER_MAGIC:
		return "nfs", network
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return "smb", network
	case unix.FUSE_SUPER_MAGIC:
		return "fuse", network
	}
	return "an unknown file system", "it is not one we test on (ext4, xfs)"
}
