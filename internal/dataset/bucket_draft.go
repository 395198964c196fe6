package dataset

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// bucketDraft is not locked: there may be others, of runs that were killed or are
// going on. Until it has published its version it neither changes nor removes
// anything that is there. Its shards get names that nobody had, and each of them says
// in its metadata which run wrote it. When it has published the version nobody else
// can any more, and everything else that was made for it is removed.
type bucketDraft struct {
	place   *bucket
	version uint64
	dir     string // for the manifest
	note    note

	mu    sync.Mutex
	taken map[string]string // names that are not free, with the ETags of those that were left
	mine  map[string]bool   // shards that were written or reused
	tries map[string]int
}

const (
	// patience is how long a node is waited for that is away.
	patience = 30 * time.Second

	// maxTries is how often a shard is sent at most.
	maxTries = 4

	// The metadata of a shard.
	metaFrom  = "penstock-origin"
	metaBegun = "penstock-begun"
)

func (b *bucket) draft(ctx context.Context, version uint64) (draft, error) {
	if _, err := b.client.Bucket(ctx, b.bucket); err != nil {
		return nil, err
	}
	t := &bucketDraft{place: b, version: version, taken: map[string]string{}, mine: map[string]bool{}, tries: map[string]int{}}
	if err := t.list(ctx, func(name, tag string) { t.taken[name] = tag }); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "penstock-dataset-")
	if err != nil {
		return nil, failed(err)
	}
	t.dir = dir
	return t, nil
}

// list calls each for everything that was made for the version.
func (t *bucketDraft) list(ctx context.Context, each func(name, tag string)) error {
	for _, prefix := range []string{folderName(t.version) + "/", manifestName(t.version)} {
		for entry, err := range t.place.client.List(ctx, t.place.bucket, penstock.ListOptions{Prefix: t.place.name + "/" + prefix}) {
			if err != nil {
				return err
			}
			each(strings.TrimPrefix(entry.Info.Name.Key, t.place.name+"/"), entry.Info.ETag)
		}
	}
	return nil
}

func (t *bucketDraft) close() { os.RemoveAll(t.dir) }

func (t *bucketDraft) manifest() string { return filepath.Join(t.dir, manifestName(t.version)) }

func (t *bucketDraft) begin(_ context.Context, n note) error {
	t.note = n
	return nil
}

func (t *bucketDraft) left() (names []string) {
	for name, tag := range t.taken {
		if tag != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (t *bucketDraft) open(ctx context.Context, name string) (io.ReadCloser, note, error) {
	r, err := t.place.client.Open(ctx, t.place.object(name), penstock.Range{})
	if err != nil {
		return nil, note{}, err
	}
	by := note{From: r.Info().Metadata[metaFrom]}
	if by.Begun, err = time.Parse(time.RFC3339Nano, r.Info().Metadata[metaBegun]); err != nil {
		by = note{}
	}
	return r, by, nil
}

func (t *bucketDraft) reuse(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mine[name] = true
	return t.taken[name]
}

// free returns a name that nobody has, as far as is known, like the one that is asked
// for.
func (t *bucketDraft) free(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		dot = len(name)
	}
	like := name
	for n := 2; ; n++ {
		if _, taken := t.taken[like]; !taken {
			t.taken[like] = ""
			return like
		}
		like = name[:dot] + "-" + strconv.Itoa(n) + name[dot:]
	}
}

// write sends a shard as it is filled.
func (t *bucketDraft) write(ctx context.Context, name string, fill func(io.Writer) error) (written, tag string, err error) {
	in, out := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		err := fill(out)
		out.CloseWithError(err)
		filled <- err
	}()
	written = t.free(name)
	info, err := t.place.client.Put(ctx, t.place.object(written), in, penstock.PutOptions{
		Condition: penstock.Condition{IfNoneMatch: "*"}, ContentType: "application/x-tar",
		Metadata: map[string]string{metaFrom: t.note.From, metaBegun: t.note.Begun.UTC().Format(time.RFC3339Nano)},
	})
	in.CloseWithError(errors.Join(errBroken, err))
	failure := <-filled
	switch {
	case failure != nil && !errors.Is(failure, errBroken):
		return "", "", failure
	case err != nil:
		return "", "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mine[written] = true
	return written, info.ETag, nil
}

// errBroken ends a fill whose request has failed.
var errBroken = errors.New("the request has ended")

// again waits for a node that is away. The next try has another name: the one that
// failed may have happened.
func (t *bucketDraft) again(ctx context.Context, name string, err error) bool {
	t.mu.Lock()
	t.tries[name]++
	tries := t.tries[name]
	t.mu.Unlock()
	switch {
	case tries >= maxTries:
		return false
	case penstock.Is(err, penstock.Exists):
		return true // somebody else was faster
	case penstock.Is(err, penstock.Unavailable), penstock.Is(err, penstock.Busy):
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return t.place.client.Await(ctx) == nil
	}
	return false
}

// publish stores the manifest, tells the node, and tidies up.
func (t *bucketDraft) publish(ctx context.Context, size int64, base uint64) error {
	v, err := t.describe(size)
	if err != nil {
		return err
	}
	v.Base = int64(base) // the node makes sure that it is still there
	name, tag, err := t.putManifest(ctx)
	if err != nil {
		return err
	}
	v.Manifest, v.ETag = t.place.name+"/"+name, tag
	_, err = t.place.client.PublishDataset(ctx, t.place.name, int64(t.version), v)
	if penstock.Is(err, penstock.Exists) || penstock.Is(err, penstock.Stale) {
		return object.Errorf(object.Stale, "version %d of %s was published by somebody else: %w", t.version, t.place, err)
	}
	if err != nil {
		return err
	}
	t.mine[name] = true
	t.tidy(ctx)
	return nil
}

func (t *bucketDraft) putManifest(ctx context.Context) (name, tag string, err error) {
	f, err := os.Open(t.manifest())
	if err != nil {
		return "", "", failed(err)
	}
	defer f.Close()
	for {
		name = t.free(manifestName(t.version))
		info, err := t.place.client.Put(ctx, t.place.object(name), f, penstock.PutOptions{
			Condition: penstock.Condition{IfNoneMatch: "*"}, ContentType: "application/vnd.penstock.manifest",
		})
		switch {
		case err == nil:
			return name, info.ETag, nil
		case !penstock.Is(err, penstock.Exists) && !t.again(ctx, name, err):
			return "", "", err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return "", "", failed(err)
		}
	}
}

// tidy writes the note and removes what others have made for the version. If it
// cannot, a further version has to read more, and there is something left that
// nobody needs.
func (t *bucketDraft) tidy(ctx context.Context) {
	var rubbish []string
	if t.list(ctx, func(name, _ string) {
		if !t.mine[name] {
			rubbish = append(rubbish, name)
		}
	}) == nil {
		_ = t.place.remove(ctx, rubbish)
	}
	if data, err := json.Marshal(t.note); err == nil {
		_, _ = t.place.client.Put(ctx, t.place.object(notePath(t.version)), bytes.NewReader(data), penstock.PutOptions{ContentType: "application/json"})
	}
}

func (t *bucketDraft) describe(size int64) (v penstock.DatasetVersion, err error) {
	m, err := manifest.Open(t.manifest())
	if err != nil {
		return v, err
	}
	hash := m.Hash()
	v = penstock.DatasetVersion{
		Bucket: t.place.bucket, Samples: int64(m.Len()), Bytes: size,
		Fields: []string{}, Columns: []string{}, Logical: hex.EncodeToString(hash[:]),
	}
	for _, f := range m.Fields() {
		v.Fields = append(v.Fields, f.Name)
	}
	for _, c := range m.Columns() {
		v.Columns = append(v.Columns, c.Name)
	}
	return v, nil
}
