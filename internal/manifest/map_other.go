//go:build !unix

package manifest

import (
	"io"
	"os"
)

// mapFile reads the file: there is no mapping here whose faults Go can catch.
func mapFile(file *os.File, size int) (data []byte, mapped bool, err error) {
	data = make([]byte, size)
	_, err = io.ReadFull(file, data)
	return data, false, err
}

func unmapFile([]byte) {}

// syncDir does nothing: directories cannot be synced here.
func syncDir(string) error { return nil }
