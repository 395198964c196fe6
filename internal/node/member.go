package node

import (
	"context"
	"io"

	"penstock.dev/penstock/internal/object"
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
	info, err := n.Stat(ctx, name)
	if err != nil {
		return Member{}, err
	}
	return n.memberOf(ctx, info, path)
}

func (n *Node) memberOf(ctx context.Context, info object.Info, path string) (Member, error) {
	index, err := n.indexes.Get(ctx, info.Name, info.Version, func(ctx context.Context) (io.ReadCloser, error) {
		r, err := n.store.OpenVerified(ctx, info.Name, object.Range{})
		if err != nil {
			return nil, err
		}
		if r.Info().Version != info.Version {
			r.Close() //nolint:errcheck // opened for reading
			return nil, object.Errorf(object.Stale, "%s was replaced meanwhile", info.Name)
		}
		return r, nil
	})
	if err != nil {
		return Member{}, object.Errorf(object.KindOf(err), "%s: %w", info.Name, err)
	}
	m, ok := index.Find(path)
	if !ok {
		return Member{}, object.Errorf(object.NotFound, "%s has no file %q", info.Name, path)
	}
	return Member{Archive: info, Offset: m.Offset, Size: m.Size, CRC32: m.CRC32}, nil
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
