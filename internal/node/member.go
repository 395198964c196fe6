package node

import (
	"context"
	"io"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

// Member is a file inside an object that is a tar.
type Member struct {
	Archive object.Info // the object
	Offset  int64       // of the file's first byte in the object
	Size    int64
	CRC32   uint32
}

// Member finds a file inside a tar. The first one who asks for any file of an
// object has its index made, for which the whole object is read.
func (n *Node) Member(ctx context.Context, name object.Name, path string) (Member, error) {
	if _, err := n.find(name.Bucket); err != nil {
		return Member{}, err
	}
	return n.archive(ctx, name).member(path)
}

// archive is an object that is a tar and has its index, or the reason why not.
type archive struct {
	info  object.Info
	index *shard.Index
	err   error
}

func (n *Node) archive(ctx context.Context, name object.Name) *archive {
	info, err := n.store.Stat(ctx, name)
	if err != nil {
		return &archive{err: err}
	}
	index, err := n.indexes.Get(ctx, name, info.Version, func(ctx context.Context) (io.ReadCloser, error) {
		r, err := n.store.OpenVerified(ctx, name, object.Range{})
		if err != nil {
			return nil, err
		}
		if r.Info().Version != info.Version {
			r.Close() //nolint:errcheck // opened for reading
			return nil, object.Errorf(object.Stale, "%s was replaced meanwhile", name)
		}
		return r, nil
	})
	if err != nil {
		err = object.Errorf(object.KindOf(err), "%s: %w", name, err)
	}
	return &archive{info, index, err}
}

func (a *archive) bytes() int64 {
	if a.index == nil {
		return 0
	}
	return a.index.Bytes()
}

func (a *archive) member(path string) (Member, error) {
	if a.err != nil {
		return Member{}, a.err
	}
	m, ok := a.index.Find(path)
	if !ok {
		return Member{}, object.Errorf(object.NotFound, "%s has no file %q", a.info.Name, path)
	}
	return Member{Archive: a.info, Offset: m.Offset, Size: m.Size, CRC32: m.CRC32}, nil
}

// locate turns a reference to a file inside the tar into one to a range of the tar.
// There may be nothing to read.
func (a *archive) locate(ref *object.Ref) (empty bool, err error) {
	m, err := a.member(ref.Member)
	if err != nil {
		return false, err
	}
	offset, length, err := ref.Range.Resolve(m.Size)
	if err != nil {
		return false, err
	}
	asked := *ref
	ref.Member, ref.Range, ref.Of = "", object.Range{Offset: m.Offset + offset, Length: length}, a.info.Version
	if length == m.Size {
		ref.CRC32, ref.Checked = m.CRC32, true
	}
	if err := asked.Check(length, ref.CRC32); err != nil {
		return false, err
	}
	return length == 0, nil
}

// OpenMember returns a reader of a file inside a tar, or of a range of it. Bounds
// of the reader are those in the object; it is nil if there are no bytes to read.
func (n *Node) OpenMember(ctx context.Context, name object.Name, path string, r object.Range) (Member, object.Reader, error) {
	for attempt := 0; ; attempt++ {
		m, err := n.Member(ctx, name, path)
		if err != nil {
			return Member{}, nil, err
		}
		offset, length, err := r.Resolve(m.Size)
		if err != nil || length == 0 {
			return m, nil, err
		}
		reader, err := n.Open(ctx, name, object.Range{Offset: m.Offset + offset, Length: length})
		if err != nil {
			return m, nil, err
		}
		if reader.Info().Version == m.Archive.Version {
			return m, reader, nil
		}
		reader.Close() //nolint:errcheck // opened for reading
		if attempt == 3 {
			return m, nil, object.Errorf(object.Busy, "%s is replaced again and again", name)
		}
	}
}
