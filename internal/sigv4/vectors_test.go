package sigv4_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/sigv4"
)

func authorization(headers, signature string) string {
	return "AWS4-HMAC-SHA256 Credential=" + accessKey + "/" + scope + ",SignedHeaders=" + headers + ",Signature=" + signature
}

// The examples of "Signature Calculations for the Authorization Header" and
// "Authenticating Requests: Using Query Parameters" in the Amazon S3 API reference.
func TestPublishedExamples(t *testing.T) {
	welcome := "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
	for name, r := range map[string]*http.Request{
		"get object": request("GET", "/test.txt", nil, "Range", "bytes=0-9", "x-amz-content-sha256", empty, "x-amz-date", date,
			"Authorization", authorization("host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")),
		"put object": request("PUT", "/test$file.text", []byte("Welcome to Amazon S3."), "Date", "Fri, 24 May 2013 00:00:00 GMT",
			"x-amz-content-sha256", welcome, "x-amz-date", date, "x-amz-storage-class", "REDUCED_REDUNDANCY",
			"Authorization", authorization("date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")),
		"get lifecycle": request("GET", "/?lifecycle", nil, "x-amz-content-sha256", empty, "x-amz-date", date,
			"Authorization", authorization("host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")),
		"list objects": request("GET", "/?max-keys=2&prefix=J", nil, "x-amz-content-sha256", empty, "x-amz-date", date,
			"Authorization", authorization("host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")),
		"presigned": request("GET", "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"+
			"&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404", nil),
	} {
		t.Run(name, func(t *testing.T) {
			req, err := sigv4.New(options()).Verify(r)
			if err != nil {
				t.Fatal(err)
			}
			if req.AccessKey != accessKey || req.Anonymous || req.Presigned != (name == "presigned") {
				t.Errorf("%+v", req)
			}
			if _, err := io.ReadAll(req.Body); err != nil {
				t.Error(err)
			}
		})
	}
}

// The examples of chunked uploads, without and with a trailer.
func TestPublishedChunks(t *testing.T) {
	content := bytes.Repeat([]byte("a"), 66560)
	encoded := func(trailer string, signatures ...string) []byte {
		return []byte("10000;chunk-signature=" + signatures[0] + "\r\n" + strings.Repeat("a", 65536) + "\r\n" +
			"400;chunk-signature=" + signatures[1] + "\r\n" + strings.Repeat("a", 1024) + "\r\n" +
			"0;chunk-signature=" + signatures[2] + "\r\n" + trailer + "\r\n")
	}
	plain := encoded("", "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
		"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9")
	if len(plain) != 66824 {
		t.Fatalf("the example has 66824 bytes, not %d", len(plain))
	}
	trailer := "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:"
	with := encoded(trailer+"d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n",
		"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
		"1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7", "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992")
	common := []string{
		"x-amz-date", date, "x-amz-storage-class", "REDUCED_REDUNDANCY", "Content-Encoding", "aws-chunked",
		"x-amz-decoded-content-length", "66560",
	}
	for name, r := range map[string]*http.Request{
		"plain": request("PUT", "/examplebucket/chunkObject.txt", plain, append(common,
			"x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
			"Authorization", authorization("content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
				"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"))...),
		"trailer": request("PUT", "/examplebucket/chunkObject.txt", with, append(common,
			"x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "x-amz-trailer", "x-amz-checksum-crc32c",
			"Authorization", authorization("content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
				"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"))...),
	} {
		t.Run(name, func(t *testing.T) {
			r.Host = "s3.amazonaws.com"
			req, err := sigv4.New(options()).Verify(r)
			if err != nil {
				t.Fatal(err)
			}
			if req.Length != 66560 {
				t.Errorf("length %d", req.Length)
			}
			if algorithm, _ := req.Checksum(); algorithm != checksum.None {
				t.Errorf("%s before the end", algorithm)
			}
			got, err := io.ReadAll(req.Body)
			if err != nil || !bytes.Equal(got, content) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			algorithm, sum := req.Checksum()
			if name == "trailer" && (algorithm != checksum.CRC32C || checksum.Encode(sum) != "sOO8/Q==") {
				t.Errorf("checksum %s %x", algorithm, sum)
			}
			if sigv4.ContentEncoding(r.Header) != "" {
				t.Errorf("encoding %q", sigv4.ContentEncoding(r.Header))
			}
		})
	}
}
