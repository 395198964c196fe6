// Package s3_test drives a node's S3 door with the Go clients that others build on. It is
// a module of its own, so that penstock does not depend on them. The endpoint and the
// keys are in the environment: test/s3/clients.sh starts the node.
package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/tags"
)

var (
	endpoint  = os.Getenv("S3_ENDPOINT")
	accessKey = os.Getenv("S3_ACCESS_KEY")
	secretKey = os.Getenv("S3_SECRET_KEY")
)

const mebi = 1 << 20

// oddNames are keys that tools and servers like to get wrong.
var oddNames = []string{
	"plain", "with space", "trailing space ", "a+b", "100%", "%41", "a%2Fb", "ключ/ü/日本", "\u00e9", "e\u0301", "a//b", "a/b", "a", "trailing/", "a/",
	"q?x=1&y=2", "hash#tag", "semi;colon", "quote'\"", "<xml>&amp;", "back\\slash", "a=b:c@d,e!", "~tilde", "*star*", "[x]{y}|^`",
}

// pathNames are keys that look like paths to be cleaned, and are not.
var pathNames = []string{"/leading", "//two", "./dot", "../up", "x/../y", "..", "."}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

// newMinio returns a client, which sends checksums after a body if trailers.
func newMinio(t *testing.T, secret string, trailers bool) *minio.Client {
	t.Helper()
	client, err := minio.New(strings.TrimPrefix(endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4(accessKey, secret, ""), MaxRetries: 1, TrailingHeaders: trailers})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func minioBucket(t *testing.T, client *minio.Client) string {
	t.Helper()
	name := fmt.Sprintf("minio-%x", rand.Uint64())
	if err := client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestMinioObjects(t *testing.T) {
	client := newMinio(t, secretKey, false)
	bucket := minioBucket(t, client)
	ctx := t.Context()
	large := randomBytes(20 * mebi)
	for _, test := range []struct {
		name    string
		options minio.PutObjectOptions
		body    []byte
		size    int64
	}{
		{"signed chunks", minio.PutObjectOptions{DisableMultipart: true}, large[:3*mebi+7], 3*mebi + 7},
		{"signed chunks, empty", minio.PutObjectOptions{}, nil, 0},
		{"MD5", minio.PutObjectOptions{SendContentMd5: true}, large[:1000], 1000},
		{"in parts", minio.PutObjectOptions{PartSize: 5 * mebi}, large, int64(len(large))},
		{"in parts of unknown number", minio.PutObjectOptions{PartSize: 5 * mebi}, large, -1},
		{"in parts side by side", minio.PutObjectOptions{PartSize: 5 * mebi, NumThreads: 4, ConcurrentStreamParts: true}, large, -1},
		{"CRC32C at the end", minio.PutObjectOptions{Checksum: minio.ChecksumCRC32C, DisableMultipart: true}, large[:mebi], mebi},
		{"CRC64NVME in parts", minio.PutObjectOptions{Checksum: minio.ChecksumCRC64NVME, PartSize: 5 * mebi}, large, int64(len(large))},
		{"SHA256", minio.PutObjectOptions{Checksum: minio.ChecksumSHA256, DisableMultipart: true}, large[:mebi], mebi},
		{"metadata", minio.PutObjectOptions{UserMetadata: map[string]string{"Colour": "blue"}, ContentType: "text/x", UserTags: map[string]string{"a": "1"}}, large[:10], 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := client
			if test.options.Checksum.IsSet() {
				client = newMinio(t, secretKey, true)
			}
			put, err := client.PutObject(ctx, bucket, test.name, bytes.NewReader(test.body), test.size, test.options)
			if err != nil {
				t.Fatal(err)
			}
			object, err := client.GetObject(ctx, bucket, test.name, minio.GetObjectOptions{Checksum: true})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(object)
			if err != nil || !bytes.Equal(got, test.body) {
				t.Fatalf("%d bytes came back of %d: %v", len(got), len(test.body), err)
			}
			info, err := client.StatObject(ctx, bucket, test.name, minio.StatObjectOptions{})
			if err != nil || info.ETag != put.ETag || info.Size != int64(len(test.body)) {
				t.Errorf("stat: %+v, %v", info, err)
			}
			for name, value := range test.options.UserMetadata {
				if info.UserMetadata[name] != value || info.ContentType != test.options.ContentType {
					t.Errorf("metadata: %q, %q", info.UserMetadata, info.ContentType)
				}
			}
		})
	}

	t.Run("ranges", func(t *testing.T) {
		object, err := client.GetObject(ctx, bucket, "in parts", minio.GetObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		got := make([]byte, 100)
		for _, at := range []int64{0, 5*mebi - 50, 20*mebi - 100} { // within parts and over a seam
			if _, err := object.ReadAt(got, at); (err != nil && err != io.EOF) || !bytes.Equal(got, large[at:at+100]) {
				t.Errorf("100 bytes at %d: %v", at, err)
			}
		}
	})
	t.Run("compose", func(t *testing.T) {
		from := minio.CopySrcOptions{Bucket: bucket, Object: "in parts"}
		info, err := client.ComposeObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: "composed"}, from, from)
		if err != nil {
			t.Fatal(err)
		}
		stat, err := client.StatObject(ctx, bucket, "composed", minio.StatObjectOptions{})
		if err != nil || stat.Size != 40*mebi || stat.ETag != info.ETag {
			t.Errorf("stat: %+v, %v", stat, err)
		}
	})
	t.Run("tags", func(t *testing.T) {
		set, err := tags.NewTags(map[string]string{"b": "x 2"}, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.PutObjectTagging(ctx, bucket, "metadata", set, minio.PutObjectTaggingOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := client.GetObjectTagging(ctx, bucket, "metadata", minio.GetObjectTaggingOptions{})
		if err != nil || got.ToMap()["b"] != "x 2" {
			t.Errorf("tags: %v, %v", got, err)
		}
	})
	t.Run("presigned", func(t *testing.T) {
		address, err := client.PresignedGetObject(ctx, bucket, "metadata", time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.Get(address.String())
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if got, err := io.ReadAll(answer.Body); err != nil || !bytes.Equal(got, large[:10]) {
			t.Errorf("%s: %q, %v", answer.Status, got, err)
		}
	})
	t.Run("the end", func(t *testing.T) { removeAll(t, client, bucket) })
}

// removeAll empties a bucket with multi-deletes, and removes it.
func removeAll(t *testing.T, client *minio.Client, bucket string) {
	t.Helper()
	for failed := range client.RemoveObjects(t.Context(), bucket, client.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true}), minio.RemoveObjectsOptions{}) {
		t.Errorf("removing %q: %v", failed.ObjectName, failed.Err)
	}
	if err := client.RemoveBucket(t.Context(), bucket); err != nil {
		t.Error(err)
	}
}

func TestMinioLists(t *testing.T) {
	client := newMinio(t, secretKey, false)
	bucket := minioBucket(t, client)
	ctx := t.Context()
	want := slices.Clone(oddNames)
	for i := range 1103 {
		want = append(want, fmt.Sprintf("many/%04d", i))
	}
	done := make(chan error, 4)
	for w := range cap(done) {
		go func() {
			var err error
			for i := w; i < len(want) && err == nil; i += cap(done) {
				_, err = client.PutObject(ctx, bucket, want[i], strings.NewReader(want[i]), int64(len(want[i])), minio.PutObjectOptions{})
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	for _, v1 := range []bool{false, true} {
		var got []string
		for object := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, UseV1: v1}) {
			if object.Err != nil {
				t.Fatal(object.Err)
			}
			got = append(got, object.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("V1 %v: %d keys of %d, or in another order", v1, len(got), len(want))
		}
	}
	for _, name := range oddNames {
		info, err := client.CopyObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: "copy/" + name}, minio.CopySrcOptions{Bucket: bucket, Object: name})
		if err != nil {
			t.Errorf("copying %q: %v", name, err)
			continue
		}
		if stat, err := client.StatObject(ctx, bucket, "copy/"+name, minio.StatObjectOptions{}); err != nil || stat.ETag != info.ETag {
			t.Errorf("the copy of %q: %v, %v", name, stat.ETag, err)
		}
	}
	removeAll(t, client, bucket)
}

func TestMinioVersions(t *testing.T) {
	client := newMinio(t, secretKey, false)
	bucket := minioBucket(t, client)
	ctx := t.Context()
	if err := client.EnableVersioning(ctx, bucket); err != nil {
		t.Fatal(err)
	}
	first, err := client.PutObject(ctx, bucket, "k", strings.NewReader("1"), 1, minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.RemoveObject(ctx, bucket, "k", minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.StatObject(ctx, bucket, "k", minio.StatObjectOptions{}); minio.ToErrorResponse(err).StatusCode != http.StatusNotFound {
		t.Errorf("a deleted object: %v", err)
	}
	if _, err := client.StatObject(ctx, bucket, "k", minio.StatObjectOptions{VersionID: first.VersionID}); err != nil {
		t.Error(err)
	}
	n := 0
	for version := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{WithVersions: true, Recursive: true}) {
		if version.Err != nil {
			t.Fatal(version.Err)
		}
		n++
		if err := client.RemoveObject(ctx, bucket, version.Key, minio.RemoveObjectOptions{VersionID: version.VersionID}); err != nil {
			t.Error(err)
		}
	}
	if n != 2 {
		t.Errorf("%d versions, want a version and a mark of deletion", n)
	}
	if err := client.RemoveBucket(ctx, bucket); err != nil {
		t.Error(err)
	}
}

func TestMinioRefusals(t *testing.T) {
	client, liar := newMinio(t, secretKey, false), newMinio(t, "wrong", false)
	bucket := minioBucket(t, client)
	ctx := t.Context()
	_, err := liar.PutObject(ctx, bucket, "k", strings.NewReader("x"), 1, minio.PutObjectOptions{})
	if code := minio.ToErrorResponse(err).Code; code != "SignatureDoesNotMatch" {
		t.Errorf("a wrong secret: %v", err)
	}
	if _, err := client.StatObject(ctx, bucket, "k", minio.StatObjectOptions{}); minio.ToErrorResponse(err).Code != "NoSuchKey" {
		t.Errorf("after a refused put: %v", err)
	}
	options := minio.PutObjectOptions{}
	options.SetMatchETagExcept("*")
	for i, want := range []string{"", "PreconditionFailed"} {
		_, err := client.PutObject(ctx, bucket, "once", strings.NewReader("x"), 1, options)
		if code := minio.ToErrorResponse(err).Code; (err == nil) != (want == "") || (err != nil && code != want) {
			t.Errorf("conditional put %d: %v", i, err)
		}
	}
	removeAll(t, client, bucket)
}
