package sigv4_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/sigv4"
)

func BenchmarkVerify(b *testing.B) {
	// As boto3 sends it.
	headers := []string{
		"Accept-Encoding", "identity", "User-Agent", "Boto3/1.35.0 md/Botocore#1.35.0 ua/2.0 os/linux#6.8 md/arch#x86_64 lang/python#3.12 md/pyimpl#CPython",
		"Amz-Sdk-Invocation-Id", "a7a2ccd1-94d3-4f49-9eb3-1d6cb3a9e7c4", "Amz-Sdk-Request", "attempt=1", "X-Amz-Checksum-Mode", "ENABLED",
	}
	signed := request("GET", "/dataset/train/shard-000123.tar", nil, append(headers, "X-Amz-Content-Sha256", empty, "Range", "bytes=0-4095")...)
	signHeader(signed)
	listed := request("GET", "/dataset?list-type=2&prefix=train%2F&delimiter=%2F&max-keys=1000&encoding-type=url", nil, append(headers, "X-Amz-Content-Sha256", empty)...)
	signHeader(listed)
	presigned := request("GET", "/dataset/train/shard-000123.tar", nil)
	signQuery(presigned, 60)
	for name, r := range map[string]*http.Request{
		"header": signed, "list": listed, "presigned": presigned, "anonymous": request("GET", "/dataset/train/shard-000123.tar", nil),
	} {
		b.Run(name, func(b *testing.B) {
			v := sigv4.New(options())
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkBody(b *testing.B) {
	for _, body := range bodies[1:] {
		for _, size := range []int{4 << 10, 4 << 20} {
			proof := ""
			if strings.HasSuffix(body, "-TRAILER") {
				proof = "trailer"
			}
			b.Run(fmt.Sprintf("%s/%dKiB", body, size>>10), func(b *testing.B) {
				v := sigv4.New(options())
				u := upload{"header", body, proof}
				r, encoded := u.buildIn(make([]byte, size), 64<<10)
				buf := make([]byte, 64<<10)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					r.Body = io.NopCloser(bytes.NewReader(encoded))
					req, err := v.Verify(r)
					if err != nil {
						b.Fatal(err)
					}
					for err == nil {
						_, err = req.Body.Read(buf)
					}
					if err != io.EOF {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// TestConcurrent is for the race detector: one verifier, many goroutines and keys.
func TestConcurrent(t *testing.T) {
	o := options()
	o.Secret = func(string) (string, bool) { return secretKey, true }
	v := sigv4.New(o)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 300 {
				// The name of a key is not signed, so each of these is a key of its own.
				r := get(nil, replace(accessKey, fmt.Sprintf("key-%d-%d", i, j)))
				if _, err := v.Verify(r); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
