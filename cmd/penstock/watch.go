package main

import "io"

// watchedFile shows how much of a file has been read. Put reads a file twice: to
// check it, and to send it.
type watchedFile struct {
	io.ReadSeeker
	bar   *progress
	total int64
	done  int64
	step  string
}

func watchFile(f io.ReadSeeker, total int64, bar *progress) *watchedFile {
	return &watchedFile{ReadSeeker: f, bar: bar, total: total, step: "checking"}
}

// Read counts.
func (w *watchedFile) Read(p []byte) (int, error) {
	n, err := w.ReadSeeker.Read(p)
	w.done += int64(n)
	w.bar.update(w.done, w.total, w.step)
	return n, err
}

// Seek begins to count anew.
func (w *watchedFile) Seek(offset int64, whence int) (int64, error) {
	if w.done > 0 {
		w.done, w.step = 0, "sending"
		w.bar.restart()
	}
	return w.ReadSeeker.Seek(offset, whence)
}

// watchedWriter shows how much has been written.
type watchedWriter struct {
	io.Writer
	bar   *progress
	total int64
	done  int64
}

// Write counts.
func (w *watchedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.done += int64(n)
	w.bar.update(w.done, w.total, "")
	return n, err
}
