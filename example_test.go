package penstock_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/testcluster"
)

// A program connects to the node that PENSTOCK_ENDPOINT names, or to the one on its
// own machine.
func Example() {
	defer serve()() // a node for this example; yours is running already
	ctx := context.Background()

	client, err := penstock.New(penstock.OptionsFromEnv())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if _, err := client.CreateBucket(ctx, "photos", penstock.BucketOptions{}); err != nil {
		log.Fatal(err)
	}
	cat := penstock.Name{Bucket: "photos", Key: "cats/1.jpg"}
	if _, err := client.Put(ctx, cat, strings.NewReader("meow"), penstock.PutOptions{}); err != nil {
		log.Fatal(err)
	}
	data, err := client.Get(ctx, cat)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", data)
	// Output: meow
}

// An object may carry a content type and metadata of yours. When Put returns it is
// durable. A file is sent with its checksum, which the node compares.
func ExampleClient_Put() {
	client, stop := connected()
	defer stop()
	ctx := context.Background()

	name := penstock.Name{Bucket: "photos", Key: "cats/1.jpg"}
	info, err := client.Put(ctx, name, strings.NewReader("meow"), penstock.PutOptions{
		ContentType: "image/jpeg",
		Metadata:    map[string]string{"camera": "x100"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d bytes, CRC-32 %08x\n", info.Name, info.Size, info.CRC32)
	info, err = client.Stat(ctx, name)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.ContentType, info.Metadata["camera"])
	// Output:
	// photos/cats/1.jpg: 4 bytes, CRC-32 8a106afe
	// image/jpeg x100
}

// Two writers, one winner: a write can depend on what is there.
func ExampleClient_Put_condition() {
	client, stop := connected()
	defer stop()
	ctx := context.Background()

	name := penstock.Name{Bucket: "photos", Key: "leader"}
	first, err := client.Put(ctx, name, strings.NewReader("ada"), penstock.PutOptions{Condition: penstock.Condition{IfNoneMatch: "*"}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Put(ctx, name, strings.NewReader("bob"), penstock.PutOptions{Condition: penstock.Condition{IfNoneMatch: "*"}})
	fmt.Println(penstock.KindOf(err))
	_, err = client.Put(ctx, name, strings.NewReader("eve"), penstock.PutOptions{Condition: penstock.Condition{IfMatch: first.ETag}})
	fmt.Println(err)
	// Output:
	// Exists
	// <nil>
}

// Open reads a range, here ten bytes from the third on, and one counted from the
// end.
func ExampleClient_Open() {
	client, stop := connected()
	defer stop()
	ctx := context.Background()

	name := penstock.Name{Bucket: "photos", Key: "alphabet"}
	if _, err := client.Put(ctx, name, strings.NewReader("abcdefghijklmnopqrstuvwxyz"), penstock.PutOptions{}); err != nil {
		log.Fatal(err)
	}
	for _, piece := range []penstock.Range{{Offset: 2, Length: 10}, {Offset: -3}} {
		r, err := client.Open(ctx, name, piece)
		if err != nil {
			log.Fatal(err)
		}
		data, err := io.ReadAll(r) // or r.WriteTo(file)
		r.Close()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s, of %d bytes\n", data, r.Info().Size)
	}
	// Output:
	// cdefghijkl, of 26 bytes
	// xyz, of 26 bytes
}

// A delimiter folds what lies below it, as directories do.
func ExampleClient_List() {
	client, stop := connected("cats/1.jpg", "cats/2.jpg", "dogs/1.jpg", "readme")
	defer stop()
	ctx := context.Background()

	for entry, err := range client.List(ctx, "photos", penstock.ListOptions{Delimiter: "/"}) {
		switch {
		case errors.Is(err, penstock.ErrIncomplete):
			fmt.Println("a disk is away: there may be more")
		case err != nil:
			log.Fatal(err)
		case entry.Prefix != "":
			fmt.Println(entry.Prefix)
		default:
			fmt.Println(entry.Info.Name.Key, entry.Info.Size)
		}
	}
	for entry, err := range client.List(ctx, "photos", penstock.ListOptions{Prefix: "cats/", Limit: 1}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("the first cat:", entry.Info.Name.Key)
	}
	// Output:
	// cats/
	// dogs/
	// readme 15
	// the first cat: cats/1.jpg
}

// A batch costs one request however many objects it asks for. Items come in the
// order of the references; one that is missing is an error in its place.
func ExampleClient_Batch() {
	client, stop := connected("1.jpg", "2.jpg", "3.jpg")
	defer stop()

	var refs []penstock.Ref
	for _, key := range []string{"3.jpg", "1.jpg", "none.jpg", "2.jpg"} {
		refs = append(refs, penstock.Ref{Name: penstock.Name{Bucket: "photos", Key: key}})
	}
	for item, err := range client.Batch(context.Background(), refs) {
		if err != nil {
			fmt.Println(item.Ref.Name.Key, penstock.KindOf(err))
			continue
		}
		fmt.Printf("%s %q\n", item.Ref.Name.Key, item.Bytes) // valid until the next item
	}
	// Output:
	// 3.jpg "bytes of 3.jpg"
	// 1.jpg "bytes of 1.jpg"
	// none.jpg NotFound
	// 2.jpg "bytes of 2.jpg"
}

// References reach into tars, and take ranges: the files of a WebDataset shard in
// any order, without the rest of it.
func ExampleClient_Batch_members() {
	client, stop := connected()
	defer stop()
	ctx := context.Background()

	var shard bytes.Buffer
	w := tar.NewWriter(&shard)
	for _, name := range []string{"0001.jpg", "0001.cls", "0002.jpg", "0002.cls"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(name))}); err != nil {
			log.Fatal(err)
		}
		io.WriteString(w, name)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	name := penstock.Name{Bucket: "photos", Key: "train-0000.tar"}
	if _, err := client.Put(ctx, name, bytes.NewReader(shard.Bytes()), penstock.PutOptions{}); err != nil {
		log.Fatal(err)
	}
	refs := []penstock.Ref{
		{Name: name, Member: "0002.jpg"},
		{Name: name, Member: "0001.cls", Range: penstock.Range{Offset: -3}},
	}
	for item, err := range client.Batch(ctx, refs) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", item.Ref.Member, item.Bytes)
	}
	// Output:
	// 0002.jpg: 0002.jpg
	// 0001.cls: cls
}

// Small objects are stored many at a time: they share a request and the node's
// sync. Those that could not be stored are named, here one that is over the
// bucket's quota.
func ExampleClient_PutBatch() {
	client, stop := connected()
	defer stop()
	ctx := context.Background()

	quota := int64(1000)
	if _, err := client.UpdateBucket(ctx, "photos", penstock.BucketOptions{Quota: &quota}); err != nil {
		log.Fatal(err)
	}
	err := client.PutBatch(ctx, "photos", []penstock.Upload{
		{Key: "1.jpg", Bytes: []byte("meow"), ContentType: "image/jpeg"},
		{Key: "2.jpg", Bytes: make([]byte, 2000)},
		{Key: "3.jpg", Bytes: []byte("purr")},
	})
	var partly *penstock.PutBatchError
	if errors.As(err, &partly) {
		for key, err := range partly.Failed {
			fmt.Println(key, penstock.KindOf(err))
		}
	} else if err != nil {
		log.Fatal(err) // any of them may be stored, each of them whole
	}
	bucket, err := client.Bucket(ctx, "photos")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bucket.Objects, "are stored")
	// Output:
	// 2.jpg Denied
	// 2 are stored
}

// The kind of an error says what can be done about it.
func ExampleIs() {
	client, stop := connected()
	defer stop()

	_, err := client.Get(context.Background(), penstock.Name{Bucket: "photos", Key: "unicorn.jpg"})
	switch {
	case err == nil:
		fmt.Println("found")
	case penstock.Is(err, penstock.NotFound):
		fmt.Println("there is no such object")
	case penstock.Is(err, penstock.Busy), penstock.Is(err, penstock.Unavailable):
		fmt.Println("later, perhaps")
	case penstock.Is(err, penstock.Corrupt):
		fmt.Println("the bytes are not the ones that were written")
	default:
		log.Fatal(err)
	}
	// Output: there is no such object
}

// connected returns a client of a node that has the bucket photos and in it objects
// with these keys.
func connected(keys ...string) (client *penstock.Client, stop func()) {
	end := serve()
	client, err := penstock.New(penstock.OptionsFromEnv())
	if err == nil {
		_, err = client.CreateBucket(context.Background(), "photos", penstock.BucketOptions{})
	}
	var objects []penstock.Upload
	for _, key := range keys {
		objects = append(objects, penstock.Upload{Key: key, Bytes: []byte("bytes of " + key)})
	}
	if err == nil {
		err = client.PutBatch(context.Background(), "photos", objects)
	}
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		end()
	}
}

// serve runs a node that PENSTOCK_ENDPOINT names, until it is told to stop.
func serve() (stop func()) {
	e := &example{}
	node := testcluster.Start(e, testcluster.Options{Binary: binary})
	os.Setenv("PENSTOCK_ENDPOINT", node.Endpoint)
	return func() {
		os.Unsetenv("PENSTOCK_ENDPOINT")
		for _, f := range e.cleanups {
			defer f()
		}
	}
}

// example is for a node what a test is otherwise.
type example struct{ cleanups []func() }

func (e *example) Helper()                           {}
func (e *example) Failed() bool                      { return false }
func (e *example) Logf(string, ...any)               {}
func (e *example) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
func (e *example) Cleanup(f func())                  { e.cleanups = append(e.cleanups, f) }

func (e *example) TempDir() string {
	dir, err := os.MkdirTemp("", "penstock-example-")
	if err != nil {
		log.Fatal(err)
	}
	e.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
