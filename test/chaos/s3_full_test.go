package chaos

import (
	"encoding/xml"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"penstock.dev/penstock/internal/testcluster"
)

// TestS3Full fills a disk with versions and with parts of an upload. What was
// acknowledged stays, the upload can be completed or aborted, versions can be deleted,
// and then there is room again.
func TestS3Full(t *testing.T) {
	v := newVolume(t, "ext4", "160MiB")
	n, client := startS3(t, []string{filepath.Join(v.dir, "data")}, small...)
	mustS3(t, client, 200, testcluster.S3Request{Method: "PUT", Bucket: "full"})
	mustS3(t, client, 200, testcluster.S3Request{
		Method: "PUT", Bucket: "full", Query: url.Values{"versioning": {""}},
		Body: []byte("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"),
	})
	for round := range 2 {
		ids := fillWith(t, client, testcluster.S3Request{Method: "PUT", Bucket: "full", Key: "version"}, func(*testcluster.S3Request, int) {})
		for _, id := range ids[:len(ids)/2] {
			mustS3(t, client, 204, testcluster.S3Request{Method: "DELETE", Bucket: "full", Key: "version", Query: url.Values{"versionId": {id}}})
		}
		waitRoom(t, client)
		a := mustS3(t, client, 200, testcluster.S3Request{Method: "POST", Bucket: "full", Key: "upload", Query: url.Values{"uploads": {""}}})
		var begun struct{ UploadId string }
		if err := xml.Unmarshal(a.Body, &begun); err != nil {
			t.Fatal(err)
		}
		u := &transfer{key: "upload", id: begun.UploadId, parts: map[int]state{}, etags: map[int]string{}}
		data := state{Of: "full", Number: 1, Size: minPart}.bytes()
		parts := fillWith(t, client, testcluster.S3Request{Method: "PUT", Bucket: "full", Key: "upload"}, func(r *testcluster.S3Request, i int) {
			r.Query = url.Values{"uploadId": {u.id}, "partNumber": {strconv.Itoa(i + 1)}}
		})
		for i := range parts {
			u.asked = append(u.asked, i+1)
			u.etags[i+1] = hexMD5(data)
		}
		if round == 1 { // a node that starts on a full disk
			n.Kill()
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
		}
		completion := u.completion()
		completion.Bucket = "full"
		done, err := client.Do(t.Context(), completion)
		if err != nil || (done.Status != 200 && done.Status < 500) {
			t.Fatalf("completion on a full disk: %v, %v", done, err)
		}
		t.Logf("round %d: %d versions, %d parts, completion on a full disk: %d", round, len(ids), len(parts), done.Status)
		if done.Status == 200 {
			whole := mustS3(t, client, 200, testcluster.S3Request{Method: "GET", Bucket: "full", Key: "upload", Query: url.Values{"versionId": {done.VersionID()}}})
			if len(whole.Body) != len(parts)*minPart {
				t.Errorf("%d bytes of %d parts", len(whole.Body), len(parts))
			}
			mustS3(t, client, 204, testcluster.S3Request{Method: "DELETE", Bucket: "full", Key: "upload", Query: url.Values{"versionId": {done.VersionID()}}})
		} else {
			mustS3(t, client, 204, testcluster.S3Request{Method: "DELETE", Bucket: "full", Key: "upload", Query: url.Values{"uploadId": {u.id}}})
		}
		for _, id := range ids[len(ids)/2:] {
			r := testcluster.S3Request{Method: "GET", Bucket: "full", Key: "version", Query: url.Values{"versionId": {id}}}
			if a := mustS3(t, client, 200, r); hexMD5(a.Body) != hexMD5(data) {
				t.Errorf("version %s has other bytes", id)
			}
			r.Method = "DELETE"
			mustS3(t, client, 204, r)
		}
		waitRoom(t, client)
	}
}

// fillWith repeats a request until there is no room for it, and returns the versions
// that were made.
func fillWith(t *testing.T, client *testcluster.S3, r testcluster.S3Request, change func(*testcluster.S3Request, int)) (ids []string) {
	t.Helper()
	r.Body = state{Of: "full", Number: 1, Size: minPart}.bytes()
	for i := range 1000 {
		change(&r, i)
		a, err := client.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if a.Status != 200 {
			if a.Status < 500 || i == 0 {
				t.Fatalf("request %d to a disk that gets full: %s", i, a)
			}
			return ids
		}
		ids = append(ids, a.VersionID())
	}
	t.Fatal("the disk does not get full")
	return nil
}

// waitRoom waits until what was deleted has given its room back.
func waitRoom(t *testing.T, client *testcluster.S3) {
	t.Helper()
	r := testcluster.S3Request{Method: "PUT", Bucket: "full", Key: "probe", Body: make([]byte, minPart)}
	var a *testcluster.S3Answer
	for range 100 {
		var err error
		if a, err = client.Do(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if a.Status == 200 {
			mustS3(t, client, 204, testcluster.S3Request{Method: "DELETE", Bucket: "full", Key: "probe", Query: url.Values{"versionId": {a.VersionID()}}})
			return
		}
		time.Sleep(100 * time.Millisecond) // there is no event for it
	}
	t.Fatalf("no room came back: %s", a)
}
