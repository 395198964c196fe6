package tree

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/localfile"
	"penstock.dev/penstock/internal/object"
)

const (
	groupFiles = 256      // small objects that are asked for together
	groupBytes = 16 << 20 // or so much of them
)

// Get writes the objects under a prefix as files below dir, which is made if it is
// not there. A file has its object's time.
//
// Nothing is written outside of dir, whatever the keys are and wherever symbolic
// links in it lead: such keys fail, as do those that need a file to be a directory.
// A file appears when it is whole; until then it grows in dir/.penstock-get, which
// goes when the act ends, or with the next one. Files are not synced.
//
// A file is left alone if it has the object's size and is not older.
func Get(ctx context.Context, client *penstock.Client, bucket, prefix, dir string, opts Options) (Report, error) {
	prefix = Directory(prefix)
	if err := checkPlace(bucket, prefix); err != nil {
		return Report{}, err
	}
	return act(ctx, client, opts, func(ctx context.Context, t *tally) error {
		g := &getter{tally: t, bucket: bucket, prefix: prefix, groups: make(chan []penstock.Info, 4)}
		return g.run(ctx, dir)
	}, countListing(bucket, prefix))
}

// getter fetches one tree. The listing hands groups of objects to the workers.
type getter struct {
	*tally
	bucket, prefix string
	groups         chan []penstock.Info // small ones, or a large one
	target         *target
}

func (g *getter) run(ctx context.Context, dir string) (err error) {
	if _, err := g.client.Bucket(ctx, g.bucket); err != nil {
		return err // before a directory is made for it
	}
	if g.target, err = openTarget(dir); err != nil {
		return err
	}
	defer func() {
		if closing := g.target.close(); err == nil {
			err = closing
		}
	}()
	// The workers take all groups, also when the run is being stopped.
	var group errgroup.Group
	for range orElse(g.opts.Requests, 4) {
		group.Go(func() error {
			w := &fileWriter{target: g.target}
			defer w.close()
			for infos := range g.groups {
				if ctx.Err() == nil {
					g.fetch(ctx, w, infos)
				}
			}
			return nil
		})
	}
	err = g.list(ctx)
	close(g.groups)
	group.Wait()
	return err
}

// list passes on what is under the prefix and can be a file.
func (g *getter) list(ctx context.Context) error {
	var group []penstock.Info
	var above ancestry
	bytes, found := int64(0), false
	pass := func() {
		if len(group) > 0 {
			g.groups <- group
		}
		group, bytes = make([]penstock.Info, 0, groupFiles), 0
	}
	err := g.listing(ctx, g.bucket, g.prefix, func(info penstock.Info) error {
		found = true
		path := info.Name.Key[len(g.prefix):]
		if info.Size == 0 && (path == "" || strings.HasSuffix(path, "/")) {
			g.skip(info.Name.String(), object.Errorf(object.Invalid, "it only marks a directory"))
			return ctx.Err()
		}
		if err := checkPath(path); err != nil {
			g.fail(ctx, info.Name.String(), err)
			return ctx.Err()
		}
		if file, ok := above.file(path); ok {
			g.fail(ctx, info.Name.String(), object.Errorf(object.Invalid, "%q is an object and would have to be a directory", g.prefix+file))
			return ctx.Err()
		}
		if info.Size > smallFile {
			g.groups <- []penstock.Info{info}
			return ctx.Err()
		}
		if len(group) == groupFiles || bytes+info.Size > groupBytes {
			pass()
		}
		group = append(group, info)
		bytes += info.Size
		return ctx.Err()
	})
	pass()
	if err == nil && !found {
		err = object.Errorf(object.NotFound, "there is nothing under %s/%s", g.bucket, g.prefix)
	}
	return err
}

// fetch writes the objects of a group that are not there yet.
func (g *getter) fetch(ctx context.Context, w *fileWriter, infos []penstock.Info) {
	missing := infos[:0]
	for _, info := range infos {
		there, err := g.there(ctx, w, info)
		switch {
		case err != nil:
			g.fail(ctx, info.Name.String(), localfile.Reason(err))
		case there:
			g.same(info.Size)
		default:
			missing = append(missing, info)
		}
	}
	if len(missing) == 1 && missing[0].Size > smallFile {
		if err := g.try(ctx, func() error { return g.one(ctx, w, missing[0]) }); err != nil {
			g.fail(ctx, missing[0].Name.String(), localfile.Reason(err))
		}
		return
	}
	err := g.try(ctx, func() (err error) {
		missing, err = g.many(ctx, w, missing)
		return err
	})
	for _, info := range missing {
		g.fail(ctx, info.Name.String(), err)
	}
}

// there reports whether the file of an object is there already.
func (g *getter) there(ctx context.Context, w *fileWriter, info penstock.Info) (bool, error) {
	if err := w.enter(info.Name.Key[len(g.prefix):]); err != nil {
		return false, err
	}
	st, err := stat(w.dirFD, w.base, false)
	switch {
	case err == unix.ENOENT:
		return false, nil
	case err != nil:
		return false, err
	case mode(&st).IsDir():
		return false, object.Errorf(object.Exists, "there is a directory in its place")
	case mode(&st).IsRegular():
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return false, nil // the link is replaced, and what it leads to is not touched
	default:
		return false, object.Errorf(object.Exists, "there is something in its place that is not a plain file")
	}
	switch {
	case g.opts.Force || st.Size != info.Size:
		return false, nil
	case g.opts.Checksum:
		crc, err := w.checksum(ctx)
		return crc == info.CRC32, err
	}
	return !older(st.Mtim, info.Modified), nil
}

// older compares a file's time with its object's. Some file systems only keep
// seconds.
func older(file unix.Timespec, object time.Time) bool {
	if file.Nsec == 0 {
		return file.Sec < object.Unix()
	}
	return file.Nano() < object.UnixNano()
}

// many fetches small objects and returns those for which there was no node.
func (g *getter) many(ctx context.Context, w *fileWriter, infos []penstock.Info) (left []penstock.Info, err error) {
	refs := make([]penstock.Ref, len(infos))
	for i, info := range infos {
		refs[i].Name = info.Name
	}
	i := 0
	for item, itemErr := range g.client.Batch(ctx, refs) {
		info := infos[i]
		i++
		if penstock.Is(itemErr, penstock.Unavailable) {
			left, err = append(left, info), itemErr
			continue
		}
		if itemErr == nil {
			itemErr = w.enter(info.Name.Key[len(g.prefix):])
		}
		if itemErr == nil {
			itemErr = w.write(item.Bytes, info.Modified)
		}
		if itemErr != nil {
			g.fail(ctx, info.Name.String(), localfile.Reason(itemErr))
			continue
		}
		g.done(int64(len(item.Bytes)))
	}
	return left, err
}

// one fetches a large object.
func (g *getter) one(ctx context.Context, w *fileWriter, info penstock.Info) error {
	r, err := g.client.Open(ctx, info.Name, penstock.Range{})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := w.enter(info.Name.Key[len(g.prefix):]); err != nil {
		return err
	}
	if err := w.stream(r, g.tally); err != nil {
		return err
	}
	g.done(r.Info().Size)
	return nil
}
