package httpapi

import (
	"archive/tar"
	"fmt"
	"io"
	"iter"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

const tarType = "application/x-tar"

// sendTar answers a batch with a tar: each item is a file under its key, or under
// the path of the member it is. One that failed is a file too, in its place, under
// .penstock/failed/ and its number, with the kind and the message as its content;
// so is one whose name no tar should be unpacked with.
func (x *exchange) sendTar(items iter.Seq2[object.Item, error]) error {
	x.W.Header()["Content-Type"] = []string{tarType}
	x.W.Header()["X-Content-Type-Options"] = noSniff
	w := tar.NewWriter(x)
	number := 0
	for item, err := range items {
		if err := x.tarItem(w, number, &item, err); err != nil {
			return err
		}
		number++
	}
	return w.Close()
}

func (x *exchange) tarItem(w *tar.Writer, number int, item *object.Item, err error) error {
	name := item.Ref.Member
	if name == "" {
		name = item.Ref.Name.Key
	}
	if err == nil {
		name, err = shard.Key(name)
	}
	if err != nil {
		err = x.api.itemError(x, err)
		text := fmt.Appendf(nil, "%s\n%s\n", object.KindOf(err), err)
		return writeFile(w, fmt.Sprintf(".penstock/failed/%d", number), text)
	}
	if item.Large == nil {
		return writeFile(w, name, item.Bytes)
	}
	_, length := item.Large.Bounds()
	if err := w.WriteHeader(&tar.Header{Name: name, Size: length, Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{w}, struct{ io.Reader }{item.Large}) // verified: a tar has no place for bad news
	return err
}

func writeFile(w *tar.Writer, name string, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
