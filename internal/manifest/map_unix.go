//go:build unix

package manifest

import (
	"os"
	"syscall"
)

func mapFile(file *os.File, size int) (data []byte, mapped bool, err error) {
	data, err = syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	return data, err == nil, err
}

// unmapFile gives the mapping back. It cannot fail for what mapFile returned.
func unmapFile(data []byte) { _ = syscall.Munmap(data) }

// syncDir makes the names in a directory durable.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
