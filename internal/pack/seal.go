package pack

// Seal appends the directory and cuts the file to its length. A pack made for
// moved records gets its name now. The writer is closed, whatever happens; a log
// pack that could not be sealed (the disk is full, or a record from before a
// Resume is damaged and Corrupt) is whole without a directory.
func (w *Writer) Seal() error {
	err := w.seal()
	if cerr := w.file.Close(); err == nil && cerr != nil {
		err = w.fail(cerr)
	}
	return err
}

func (w *Writer) seal() error {
	if w.contents.partial {
		if err := w.recollect(); err != nil {
			return err
		}
	}
	// Synced first, so that a directory vouches for every record before it.
	if w.synced < w.end {
		if err := w.Sync(); err != nil {
			return err
		}
	}
	r := Record{Kind: directory, Modified: w.opts.Clock()}
	h := headLen(&r)
	d := NewDraft(r, w.contents.finish(make([]byte, h, h+w.contents.size()), w.end))
	if err := w.Append(d); err != nil {
		return err
	}
	if err := w.file.Truncate(w.end + 2*Block); err != nil {
		return w.fail(err)
	}
	if err := w.Sync(); err != nil {
		return err
	}
	if !w.opts.Moved {
		return nil
	}
	if err := w.fs.Rename(w.name, FileName(w.opts.ID)); err != nil {
		return w.fail(err)
	}
	if err := w.fs.SyncDir(Dir); err != nil {
		return w.fail(err)
	}
	return nil
}

// recollect reads the records a resumed pack had before.
func (w *Writer) recollect() error {
	w.contents = directoryBuilder{}
	f := &File{id: w.opts.ID, file: w.file, key: w.key}
	res, err := f.Scan(ScanOptions{Limit: w.end, Floor: w.end}, func(r *Record, l Location) error {
		w.contents.add(r, l)
		return nil
	})
	if err == nil && len(res.Damage) > 0 {
		err = f.damaged(res.Damage[0].Offset, "no directory can be made of what is damaged")
	}
	return err
}
