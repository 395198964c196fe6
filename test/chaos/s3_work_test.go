package chaos

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"penstock.dev/penstock/internal/testcluster"
)

// s3Worker writes to a bucket of its own through the S3 door.
type s3Worker struct {
	client *testcluster.S3
	random *rand.Rand
	outage *outage
	bucket string
	acked  *atomic.Int64

	mode      string // of the bucket: enabled, suspended or unversioned
	maybeMode string // what a request without an answer may have made of it
	modeOpen  bool

	lines   map[string]*keyLine
	uploads []*transfer
	marks   int // given out
}

func (w *s3Worker) line(key string) *keyLine {
	if w.lines[key] == nil {
		w.lines[key] = &keyLine{}
	}
	return w.lines[key]
}

// s3Keys are those of every bucket: some of them are next to each other in an index.
var s3Keys = []string{"k", "k\x00", "k\x00\x01", "k\x00\x02k", "k ", "k/", "k//k", "k/../k", "kÿ", "日本 +%3F&"}

func (w *s3Worker) key() string { return s3Keys[w.random.IntN(len(s3Keys))] }

// errOpen says that it is open what a request has done.
var errOpen = errors.New("no answer that counts")

// ask sends a request. The error is errOpen if nothing is known of what it did: there
// was no answer, it came in the moment of a cut, or it says that the node failed.
func (w *s3Worker) ask(ctx context.Context, r testcluster.S3Request) (*testcluster.S3Answer, error) {
	r.Bucket = w.bucket
	began := w.outage.now()
	a, err := w.client.Do(ctx, r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errOpen, err)
	case w.outage.late(began):
		return nil, fmt.Errorf("%w: it came too late", errOpen)
	case a.Status >= 500:
		return nil, fmt.Errorf("%w: %s", errOpen, a)
	}
	return a, nil
}

// step does one operation. The error is a violation, or leaves open what happened.
func (w *s3Worker) step(ctx context.Context) error {
	key := w.key()
	ln := w.line(key)
	if ln.open || w.modeOpen {
		return nil // the next check will tell
	}
	switch act := w.random.IntN(100); {
	case act < 25:
		return w.put(ctx, key)
	case act < 30:
		return w.create(ctx, key)
	case act < 42:
		return w.copy(ctx, key)
	case act < 52:
		return w.delete(ctx, key)
	case act < 62:
		return w.deleteVersion(ctx, key)
	case act < 69:
		return w.deleteMany(ctx)
	case act < 79:
		return w.tag(ctx, key)
	case act < 81:
		return w.version(ctx)
	case act < 85:
		return w.begin(ctx, key)
	case act < 93:
		return w.part(ctx)
	case act < 97:
		return w.complete(ctx)
	}
	return w.abort(ctx)
}

// change sends a request that brings a key to other versions.
func (w *s3Worker) change(ctx context.Context, what, key string, to versions, r testcluster.S3Request) (*testcluster.S3Answer, error) {
	ln := w.line(key)
	r.Key = key
	ln.begin(what, to)
	a, err := w.ask(ctx, r)
	if err != nil {
		ln.note("%s: %v", what, err)
		return nil, err
	}
	if a.Status >= 300 {
		return nil, violationf("%s of %s/%s: %s; %s", what, w.bucket, key, a, ln.story())
	}
	if to, fresh := ln.maybe.newest(); fresh && to.etag != "" && a.Header.Get("Etag") != "" && a.ETag() != to.etag {
		return nil, violationf("%s of %s/%s: ETag %s, not %s", what, w.bucket, key, a.ETag(), to.etag)
	}
	id := a.VersionID()
	if w.mode == enabled && slices.ContainsFunc(ln.maybe, func(v version) bool { return v.id == "" }) {
		if id == "" || id == "null" || slices.ContainsFunc(ln.now, func(v version) bool { return v.id == id }) {
			return nil, violationf("%s of %s/%s: version ID %q; %s", what, w.bucket, key, id, ln.story())
		}
	}
	ln.done(what, id)
	w.acked.Add(1)
	return a, nil
}

// fresh makes up new content for a key.
func (w *s3Worker) fresh(key string, size int64) (version, []byte) {
	ln := w.line(key)
	ln.writes++
	s := state{Of: w.bucket + "/" + testcluster.S3Escape(key, true), Number: ln.writes, Size: size}
	data := s.bytes()
	return version{parts: []state{s}, etag: hexMD5(data), mark: s.mark()}, data
}

func (w *s3Worker) randomTags() string {
	if w.random.IntN(3) > 0 {
		return ""
	}
	return fmt.Sprintf("a=%d&b=%d", w.random.IntN(10), w.random.IntN(10))
}

func (w *s3Worker) how() testcluster.S3Body {
	return testcluster.S3Body(w.random.IntN(testcluster.S3Bodies))
}

func (w *s3Worker) put(ctx context.Context, key string) error {
	v, data := w.fresh(key, randomSize(w.random))
	v.tags = w.randomTags()
	header := http.Header{"X-Amz-Meta-Mark": {v.mark}}
	if v.tags != "" {
		header.Set("X-Amz-Tagging", v.tags)
	}
	_, err := w.change(ctx, "put of "+v.mark, key, w.line(key).now.with(w.mode, v), testcluster.S3Request{Method: "PUT", Body: data, How: w.how(), Header: header})
	return err
}

// create is a put that wants the key to be new.
func (w *s3Worker) create(ctx context.Context, key string) error {
	ln := w.line(key)
	v, data := w.fresh(key, randomSize(w.random))
	r := testcluster.S3Request{
		Method: "PUT", Key: key, Body: data, How: w.how(),
		Header: http.Header{"X-Amz-Meta-Mark": {v.mark}, "If-None-Match": {"*"}},
	}
	if _, there := ln.now.newest(); !there {
		_, err := w.change(ctx, "creation of "+v.mark, key, ln.now.with(w.mode, v), r)
		return err
	}
	ln.begin("creation", ln.now)
	a, err := w.ask(ctx, r)
	if err != nil {
		return err
	}
	if a.Status != http.StatusPreconditionFailed {
		return violationf("%s/%s was created though it exists: %s; %s", w.bucket, key, a, ln.story())
	}
	ln.undone("creation")
	return nil
}

// copy copies some version of another key, or an older one of the same.
func (w *s3Worker) copy(ctx context.Context, key string) error {
	from, where, v, ok := w.source()
	if !ok || (from == key && (v.id == "null" || v.id == w.line(key).now[0].id)) {
		return nil
	}
	a, err := w.change(ctx, "copy of "+v.String(), key, w.line(key).now.with(w.mode, v), testcluster.S3Request{Method: "PUT", Header: http.Header{"X-Amz-Copy-Source": {where}}})
	if err != nil {
		return err
	}
	var result struct{ ETag string }
	if err := xml.Unmarshal(a.Body, &result); err != nil || strings.Trim(result.ETag, `"`) != v.etag {
		return violationf("copy of %s to %s/%s: %s, %v", v, w.bucket, key, a, err)
	}
	return nil
}

// source chooses a version that can be copied.
func (w *s3Worker) source() (key, where string, v version, ok bool) {
	key = w.key()
	ln := w.line(key)
	if ln.open || len(ln.now) == 0 {
		return key, "", v, false
	}
	n := w.random.IntN(len(ln.now))
	v = ln.now[n]
	where = "/" + w.bucket + "/" + testcluster.S3Escape(key, true)
	if n > 0 || w.random.IntN(2) == 0 {
		where += "?versionId=" + v.id
	}
	return key, where, v, !v.marker()
}

func (w *s3Worker) delete(ctx context.Context, key string) error {
	_, err := w.change(ctx, "delete", key, w.line(key).now.deleted(w.mode), testcluster.S3Request{Method: "DELETE"})
	return err
}

func (w *s3Worker) deleteVersion(ctx context.Context, key string) error {
	ln := w.line(key)
	if len(ln.now) == 0 {
		return nil
	}
	id := ln.now[w.random.IntN(len(ln.now))].id
	_, err := w.change(ctx, "delete of "+id, key, ln.now.without(id), testcluster.S3Request{Method: "DELETE", Query: url.Values{"versionId": {id}}})
	return err
}

// deleteMany deletes of several keys in one request, of each the key or one version.
func (w *s3Worker) deleteMany(ctx context.Context) error {
	type item struct {
		Key       string
		VersionId string `xml:",omitempty"`
	}
	var list struct {
		XMLName xml.Name `xml:"Delete"`
		Object  []item
	}
	for _, i := range w.random.Perm(len(s3Keys))[:1+w.random.IntN(5)] {
		it := item{Key: s3Keys[i]}
		ln := w.line(it.Key)
		if ln.open || strings.Contains(it.Key, "\x00") { // which XML cannot hold
			continue
		}
		to := ln.now.deleted(w.mode)
		if len(ln.now) > 0 && w.random.IntN(2) == 0 {
			it.VersionId = ln.now[w.random.IntN(len(ln.now))].id
			to = ln.now.without(it.VersionId)
		}
		ln.begin("delete of many, "+it.VersionId, to)
		list.Object = append(list.Object, it)
	}
	if len(list.Object) == 0 {
		return nil
	}
	text, err := xml.Marshal(list)
	if err != nil {
		return violationf("%v", err)
	}
	sum, _ := hex.DecodeString(hexMD5(text))
	a, err := w.ask(ctx, testcluster.S3Request{
		Method: "POST", Query: url.Values{"delete": {""}}, Body: text,
		Header: http.Header{"Content-Md5": {base64.StdEncoding.EncodeToString(sum)}},
	})
	if err != nil {
		return err
	}
	var result struct {
		Deleted []struct{ Key, VersionId, DeleteMarkerVersionId string }
		Error   []struct{ Key, Code, Message string }
	}
	if err := xml.Unmarshal(a.Body, &result); err != nil || a.Status != 200 || len(result.Deleted)+len(result.Error) != len(list.Object) {
		return violationf("delete of many: %s, %v", a, err)
	}
	for _, d := range result.Deleted {
		w.line(d.Key).done("delete of many", d.DeleteMarkerVersionId)
		w.acked.Add(1)
	}
	for _, e := range result.Error { // they stay open
		if e.Code != "InternalError" && e.Code != "ServiceUnavailable" && e.Code != "SlowDown" {
			return violationf("delete of many, %s: %s %s; %s", e.Key, e.Code, e.Message, w.line(e.Key).story())
		}
		err = fmt.Errorf("%w: %s", errOpen, e.Code)
	}
	return err
}

// tag sets, or takes away, the tags of a version.
func (w *s3Worker) tag(ctx context.Context, key string) error {
	ln := w.line(key)
	if len(ln.now) == 0 {
		return nil
	}
	v := ln.now[w.random.IntN(len(ln.now))]
	if v.marker() {
		return nil
	}
	r := testcluster.S3Request{Method: "DELETE", Query: url.Values{"tagging": {""}, "versionId": {v.id}}}
	tags := w.randomTags()
	if tags != "" {
		values, _ := url.ParseQuery(tags)
		r.Method = "PUT"
		r.Body = fmt.Appendf(nil, "<Tagging><TagSet><Tag><Key>a</Key><Value>%s</Value></Tag><Tag><Key>b</Key><Value>%s</Value></Tag></TagSet></Tagging>",
			values.Get("a"), values.Get("b"))
	}
	_, err := w.change(ctx, fmt.Sprintf("tags %q for %s", tags, v.id), key, ln.now.tagged(v.id, tags), r)
	return err
}

// version turns the keeping of versions on or off.
func (w *s3Worker) version(ctx context.Context) error {
	to := enabled
	if w.mode == enabled && w.random.IntN(3) == 0 {
		to = suspended
	}
	for _, ln := range w.lines {
		if ln.open {
			return nil // it would not be known in which mode that was done
		}
	}
	w.maybeMode, w.modeOpen = to, true
	a, err := w.ask(ctx, testcluster.S3Request{
		Method: "PUT", Query: url.Values{"versioning": {""}},
		Body: []byte("<VersioningConfiguration><Status>" + to + "</Status></VersioningConfiguration>"),
	})
	if err != nil {
		return err
	}
	if a.Status != 200 {
		return violationf("versioning of %s: %s", w.bucket, a)
	}
	w.mode, w.modeOpen = to, false
	return nil
}

// begin begins an upload in parts.
func (w *s3Worker) begin(ctx context.Context, key string) error {
	if len(w.uploads) >= 4 {
		return nil
	}
	w.marks++
	u := &transfer{key: key, mark: fmt.Sprintf("upload %d", w.marks), parts: map[int]state{}, etags: map[int]string{}}
	w.uploads = append(w.uploads, u)
	a, err := w.ask(ctx, testcluster.S3Request{
		Method: "POST", Key: key, Query: url.Values{"uploads": {""}},
		Header: http.Header{"X-Amz-Meta-Mark": {u.mark}},
	})
	if err != nil {
		return err
	}
	var result struct{ UploadId string }
	if err := xml.Unmarshal(a.Body, &result); err != nil || a.Status != 200 || result.UploadId == "" {
		return violationf("upload of %s: %s, %v", key, a, err)
	}
	u.id = result.UploadId
	w.acked.Add(1)
	return nil
}

// upload returns one of which everything is known, nil if there is none.
func (w *s3Worker) upload() *transfer {
	if len(w.uploads) == 0 {
		return nil
	}
	u := w.uploads[w.random.IntN(len(w.uploads))]
	if u.id == "" || u.late != 0 || u.ending != "" || w.line(u.key).open {
		return nil
	}
	return u
}

const minPart = 5 << 20

// part brings a part, new or again. Only the last may be small.
func (w *s3Worker) part(ctx context.Context) error {
	u := w.upload()
	if u == nil {
		return nil
	}
	number, size := 1+w.random.IntN(2), int64(minPart+w.random.IntN(1<<20))
	switch w.random.IntN(4) {
	case 0, 1:
		number, size = 3, randomSize(w.random)
	case 2:
		return w.copyPart(ctx, u, 3)
	}
	return w.putPart(ctx, u, number, size)
}

// copyPart makes a part of an object.
func (w *s3Worker) copyPart(ctx context.Context, u *transfer, number int) error {
	_, where, v, ok := w.source()
	if !ok || len(v.parts) > 1 {
		return nil
	}
	u.late, u.latePut = number, v.parts[0]
	a, err := w.ask(ctx, testcluster.S3Request{
		Method: "PUT", Key: u.key, Header: http.Header{"X-Amz-Copy-Source": {where}},
		Query: url.Values{"uploadId": {u.id}, "partNumber": {strconv.Itoa(number)}},
	})
	if err != nil {
		return err
	}
	var result struct{ ETag string }
	etag := hexMD5(v.bytes())
	if err := xml.Unmarshal(a.Body, &result); err != nil || a.Status != 200 || strings.Trim(result.ETag, `"`) != etag {
		return violationf("part %d of %q, upload %s, from %s: %s, not %s", number, u.key, u.id, where, a, etag)
	}
	u.parts[number], u.etags[number], u.late = v.parts[0], etag, 0
	w.acked.Add(1)
	return nil
}

func (w *s3Worker) putPart(ctx context.Context, u *transfer, number int, size int64) error {
	v, data := w.fresh(u.key, size)
	u.late, u.latePut = number, v.parts[0]
	a, err := w.ask(ctx, testcluster.S3Request{
		Method: "PUT", Key: u.key, Body: data, How: w.how(),
		Query: url.Values{"uploadId": {u.id}, "partNumber": {strconv.Itoa(number)}},
	})
	if err != nil {
		return err
	}
	if a.Status != 200 || a.ETag() != v.etag {
		return violationf("part %d of %s, upload %s: %s", number, u.key, u.id, a)
	}
	u.parts[number], u.etags[number], u.late = v.parts[0], v.etag, 0
	w.acked.Add(1)
	return nil
}

func (w *s3Worker) complete(ctx context.Context) error {
	u := w.upload()
	if u == nil || len(u.parts) == 0 {
		return nil
	}
	_, err := w.finish(ctx, u)
	return err
}

// finish completes an upload of all its parts. On success it is forgotten.
func (w *s3Worker) finish(ctx context.Context, u *transfer) (*testcluster.S3Answer, error) {
	u.asked, u.ending = nil, "complete"
	for number := range u.parts {
		u.asked = append(u.asked, number)
	}
	slices.Sort(u.asked)
	v := u.content(u.asked)
	a, err := w.change(ctx, "completion of "+u.mark, u.key, w.line(u.key).now.with(w.mode, v), u.completion())
	if err != nil {
		return nil, err
	}
	w.forget(u)
	return a, u.judge(a, v)
}

// completion is the request that completes.
func (u *transfer) completion() testcluster.S3Request {
	var text strings.Builder
	text.WriteString("<CompleteMultipartUpload>")
	for _, number := range u.asked {
		fmt.Fprintf(&text, "<Part><PartNumber>%d</PartNumber><ETag>\"%s\"</ETag></Part>", number, u.etags[number])
	}
	text.WriteString("</CompleteMultipartUpload>")
	return testcluster.S3Request{Method: "POST", Key: u.key, Query: url.Values{"uploadId": {u.id}}, Body: []byte(text.String())}
}

func (u *transfer) judge(a *testcluster.S3Answer, v version) error {
	var result struct{ ETag string }
	if err := xml.Unmarshal(a.Body, &result); err != nil || a.Status != 200 || strings.Trim(result.ETag, `"`) != v.etag {
		return violationf("completion of %s as %s: %s, %v", u.mark, v, a, err)
	}
	return nil
}

func (w *s3Worker) forget(u *transfer) {
	w.uploads = slices.DeleteFunc(w.uploads, func(other *transfer) bool { return other == u })
}

func (w *s3Worker) abort(ctx context.Context) error {
	u := w.upload()
	if u == nil {
		return nil
	}
	return w.abandon(ctx, u)
}

func (w *s3Worker) abandon(ctx context.Context, u *transfer) error {
	u.ending = "abort"
	a, err := w.ask(ctx, testcluster.S3Request{Method: "DELETE", Key: u.key, Query: url.Values{"uploadId": {u.id}}})
	if err != nil {
		return err
	}
	if a.Status != http.StatusNoContent {
		return violationf("abort of %s, upload %s: %s", u.key, u.id, a)
	}
	w.forget(u)
	w.acked.Add(1)
	return nil
}
