package chaos

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/testcluster"
)

// check asks the node for all that the worker's bucket should hold, and settles what is
// open: what it sees is from then on what must be. Of keys that were certain only a
// share is read.
func (w *s3Worker) check(ctx context.Context, share float64) error {
	if err := w.checkMode(ctx); err != nil {
		return err
	}
	open := map[string]bool{}
	for key, ln := range w.lines {
		open[key] = ln.open
	}
	if err := w.checkVersions(ctx); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(w.lines)) {
		if open[key] || w.random.Float64() < share {
			if err := w.checkKey(ctx, key); err != nil {
				return err
			}
		}
	}
	if err := w.checkObjects(ctx); err != nil {
		return err
	}
	return w.checkUploads(ctx)
}

// get sends a request that has to be answered.
func (w *s3Worker) get(ctx context.Context, key string, query url.Values) (*testcluster.S3Answer, error) {
	a, err := w.client.Do(ctx, testcluster.S3Request{Method: "GET", Bucket: w.bucket, Key: key, Query: query})
	if err == nil && a.Status >= 500 {
		err = fmt.Errorf("GET %s/%s?%s: %s", w.bucket, key, query.Encode(), a)
	}
	return a, err
}

// read is get of a document.
func (w *s3Worker) read(ctx context.Context, key string, query url.Values, v any) error {
	a, err := w.get(ctx, key, query)
	if err != nil {
		return err
	}
	if a.Status != 200 {
		return fmt.Errorf("GET %s/%s?%s: %s", w.bucket, key, query.Encode(), a)
	}
	return xml.Unmarshal(a.Body, v)
}

func (w *s3Worker) checkMode(ctx context.Context) error {
	var found struct{ Status string }
	if err := w.read(ctx, "", url.Values{"versioning": {""}}, &found); err != nil {
		return err
	}
	if found.Status != w.mode && !(w.modeOpen && found.Status == w.maybeMode) {
		return fmt.Errorf("LOST: the versioning of %s is %q, acknowledged was %q", w.bucket, found.Status, w.mode)
	}
	w.mode, w.modeOpen = found.Status, false
	return nil
}

// listed is a line of a listing of versions.
type listed struct {
	XMLName   xml.Name
	Key       string
	VersionId string
	IsLatest  bool
	ETag      string
	Size      int64
}

func (l listed) marker() bool { return l.XMLName.Local == "DeleteMarker" }

// listVersions returns all versions of the bucket, in pages of a random size.
func (w *s3Worker) listVersions(ctx context.Context, prefix string) ([]listed, error) {
	var all []listed
	query := url.Values{"versions": {""}, "encoding-type": {"url"}, "prefix": {prefix}, "max-keys": {strconv.Itoa(3 + w.random.IntN(300))}}
	for {
		var page struct {
			IsTruncated         bool
			NextKeyMarker       string
			NextVersionIdMarker string
			Lines               []listed `xml:",any"`
		}
		if err := w.read(ctx, "", query, &page); err != nil {
			return nil, err
		}
		for _, line := range page.Lines {
			if line.XMLName.Local == "Version" || line.XMLName.Local == "DeleteMarker" {
				line.ETag, line.Key = strings.Trim(line.ETag, `"`), unescape(line.Key)
				all = append(all, line)
			}
		}
		if !page.IsTruncated {
			return all, nil
		}
		query.Set("key-marker", unescape(page.NextKeyMarker))
		query.Set("version-id-marker", page.NextVersionIdMarker)
	}
}

// unescape reads a key of a listing.
func unescape(key string) string {
	text, err := url.PathUnescape(key)
	if err != nil {
		return "not escaped: " + key
	}
	return text
}

// checkVersions compares the versions of all keys with what they may be.
func (w *s3Worker) checkVersions(ctx context.Context) error {
	all, err := w.listVersions(ctx, "")
	if err != nil {
		return err
	}
	found := map[string][]listed{}
	for i, line := range all {
		if i > 0 && line.Key < all[i-1].Key {
			return fmt.Errorf("listing of versions: %s behind %s", line.Key, all[i-1].Key)
		}
		if w.lines[line.Key] == nil {
			return fmt.Errorf("listing of versions: %s was never written", line.Key)
		}
		found[line.Key] = append(found[line.Key], line)
	}
	for _, key := range slices.Sorted(maps.Keys(w.lines)) {
		if err := w.settle(ctx, key, found[key]); err != nil {
			return err
		}
	}
	return nil
}

// settle finds out which of its possible states a key is in.
func (w *s3Worker) settle(ctx context.Context, key string, found []listed) error {
	ln := w.lines[key]
	for i, line := range found {
		if line.IsLatest != (i == 0) {
			return fmt.Errorf("%s/%s: version %d of %d says latest: %v", w.bucket, key, i, len(found), line.IsLatest)
		}
	}
	possible := []versions{ln.now}
	if ln.open {
		possible = append(possible, ln.maybe)
	}
	var fit []versions
	for _, l := range possible {
		if l, ok := l.fits(found); ok {
			fit = append(fit, l)
		}
	}
	if len(fit) == 2 { // what was open may have been about tags
		var right []versions
		for _, l := range fit {
			if w.checkTags(ctx, key, l) == nil {
				right = append(right, l)
			}
		}
		fit = right
	}
	if len(fit) == 0 {
		return fmt.Errorf("WRONG VERSIONS of %s/%s: %+v; %s", w.bucket, key, found, ln.story())
	}
	ln.now, ln.maybe, ln.open = fit[len(fit)-1], nil, false
	ln.note("found %v", ln.now)
	return nil
}

// fits reports whether a listing shows these versions, and returns them with the ID of
// the one whose is not known yet.
func (l versions) fits(found []listed) (versions, bool) {
	if len(l) != len(found) {
		return nil, false
	}
	l = slices.Clone(l)
	for i, v := range l {
		line := found[i]
		if v.id == "" { // it must be a new one
			if line.VersionId == "null" || slices.ContainsFunc(l, func(v version) bool { return v.id == line.VersionId }) {
				return nil, false
			}
			l[i].id = line.VersionId
		}
		if l[i].id != line.VersionId || v.marker() != line.marker() || (v.etag != "" && v.etag != line.ETag) {
			return nil, false
		}
	}
	return l, true
}

func (w *s3Worker) checkTags(ctx context.Context, key string, l versions) error {
	for _, v := range l {
		if v.marker() {
			continue
		}
		var found struct {
			Tags []struct{ Key, Value string } `xml:"TagSet>Tag"`
		}
		if err := w.read(ctx, key, url.Values{"tagging": {""}, "versionId": {v.id}}, &found); err != nil {
			return err
		}
		var tags []string
		for _, tag := range found.Tags {
			tags = append(tags, tag.Key+"="+tag.Value)
		}
		if got := strings.Join(tags, "&"); got != v.tags {
			return fmt.Errorf("WRONG TAGS of %s/%s, version %s: %q, not %q; %s", w.bucket, key, v.id, got, v.tags, w.lines[key].story())
		}
	}
	return nil
}

// checkKey reads all versions of a key.
func (w *s3Worker) checkKey(ctx context.Context, key string) error {
	ln := w.lines[key]
	for _, v := range ln.now {
		a, err := w.get(ctx, key, url.Values{"versionId": {v.id}})
		if err != nil {
			return err
		}
		if v.marker() {
			if a.Status != 405 {
				return fmt.Errorf("%s/%s: the mark %s is answered %s", w.bucket, key, v.id, a)
			}
			continue
		}
		if err := v.matches(a); err != nil {
			return fmt.Errorf("%s/%s: %w; %s", w.bucket, key, err, ln.story())
		}
	}
	a, err := w.get(ctx, key, nil)
	if err != nil {
		return err
	}
	if v, there := ln.now.newest(); there {
		err = v.matches(a)
	} else if a.Status != 404 {
		err = fmt.Errorf("it is not there, and answered %d", a.Status)
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w; %s", w.bucket, key, err, ln.story())
	}
	return w.checkTags(ctx, key, ln.now)
}

func (v version) matches(a *testcluster.S3Answer) error {
	switch {
	case a.Status != 200:
		return fmt.Errorf("LOST %s: %s", v, a)
	case !bytes.Equal(a.Body, v.bytes()):
		return fmt.Errorf("WRONG BYTES: %d of them are not those of %s", len(a.Body), v)
	case a.Header.Get("X-Amz-Meta-Mark") != v.mark || (v.etag != "" && a.ETag() != v.etag):
		return fmt.Errorf("WRONG HEADER: mark %q and ETag %s of %s", a.Header.Get("X-Amz-Meta-Mark"), a.ETag(), v)
	}
	return nil
}

// checkObjects compares the plain listing with what must be, which is certain by now.
func (w *s3Worker) checkObjects(ctx context.Context) error {
	var want, got []string
	for _, key := range slices.Sorted(maps.Keys(w.lines)) {
		if v, there := w.lines[key].now.newest(); there {
			want = append(want, key+" "+v.etag)
		}
	}
	query := url.Values{"list-type": {"2"}, "encoding-type": {"url"}, "max-keys": {strconv.Itoa(1 + w.random.IntN(30))}}
	for {
		var page struct {
			IsTruncated           bool
			NextContinuationToken string
			Contents              []struct{ Key, ETag string }
		}
		if err := w.read(ctx, "", query, &page); err != nil {
			return err
		}
		for _, o := range page.Contents {
			got = append(got, unescape(o.Key)+" "+strings.Trim(o.ETag, `"`))
		}
		if !page.IsTruncated {
			break
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
	if !slices.Equal(want, got) {
		return fmt.Errorf("listing of %s:\n%v, not\n%v", w.bucket, got, want)
	}
	return nil
}

// checkUploads compares the uploads that are under way with what must be, and brings to
// an end those whose end was asked for.
func (w *s3Worker) checkUploads(ctx context.Context) error {
	there, err := w.listUploads(ctx)
	if err != nil {
		return err
	}
	for _, u := range slices.Clone(w.uploads) {
		if u.id == "" {
			if u.id = adopt(there, u, w.uploads); u.id == "" {
				w.forget(u) // it never began
				continue
			}
		}
		_, alive := there[u.id]
		delete(there, u.id)
		if err := w.checkUpload(ctx, u, alive); err != nil {
			return fmt.Errorf("%s of %s/%s, %s: %w", u.mark, w.bucket, u.key, u.id, err)
		}
	}
	for id, key := range there {
		return fmt.Errorf("upload %s of %s/%s: nobody began it, or it was ended", id, w.bucket, key)
	}
	return nil
}

// adopt finds the ID of an upload whose beginning was not acknowledged.
func adopt(there map[string]string, u *transfer, known []*transfer) string {
	for id, key := range there {
		if key == u.key && !slices.ContainsFunc(known, func(other *transfer) bool { return other.id == id }) {
			return id
		}
	}
	return ""
}

func (w *s3Worker) listUploads(ctx context.Context) (map[string]string, error) {
	there := map[string]string{}
	query := url.Values{"uploads": {""}, "encoding-type": {"url"}, "max-uploads": {strconv.Itoa(1 + w.random.IntN(5))}}
	for {
		var page struct {
			IsTruncated        bool
			NextKeyMarker      string
			NextUploadIdMarker string
			Upload             []struct{ Key, UploadId string }
		}
		if err := w.read(ctx, "", query, &page); err != nil {
			return nil, err
		}
		for _, u := range page.Upload {
			there[u.UploadId] = unescape(u.Key)
		}
		if !page.IsTruncated {
			return there, nil
		}
		query.Set("key-marker", unescape(page.NextKeyMarker))
		query.Set("upload-id-marker", page.NextUploadIdMarker)
	}
}

func (w *s3Worker) checkUpload(ctx context.Context, u *transfer, alive bool) error {
	if u.ending == "abort" && !alive {
		w.forget(u)
		return nil
	}
	if u.ending == "complete" {
		return w.retry(ctx, u, alive)
	}
	if !alive {
		return fmt.Errorf("LOST: it is not there any more")
	}
	if err := w.checkParts(ctx, u); err != nil {
		return err
	}
	if u.ending == "abort" {
		return w.abandon(ctx, u)
	}
	if w.random.IntN(4) == 0 { // an upload that was interrupted can go on
		if err := w.putPart(ctx, u, 3, randomSize(w.random)); err != nil {
			return err
		}
		if _, err := w.finish(ctx, u); err != nil {
			return err
		}
		return w.checkKey(ctx, u.key)
	}
	return nil
}

// retry completes again what was not answered: the client gets the answer it has
// missed, and one object.
func (w *s3Worker) retry(ctx context.Context, u *transfer, alive bool) error {
	ln, v := w.line(u.key), u.content(u.asked)
	made, there := ln.now.newest()
	there = there && made.mark == v.mark && made.etag == v.etag
	if !there {
		if !alive {
			return fmt.Errorf("LOST: neither the object nor the upload is there; %s", ln.story())
		}
		if err := w.checkParts(ctx, u); err != nil {
			return err
		}
		if _, err := w.finish(ctx, u); err != nil {
			return err
		}
		return w.checkKey(ctx, u.key)
	}
	a, err := w.ask(ctx, u.completion())
	if err != nil {
		return err
	}
	if err := u.judge(a, v); err != nil {
		return err
	}
	if id := a.VersionID(); w.mode == enabled && id != made.id {
		return fmt.Errorf("it was made twice: as %s and as %s", made.id, id)
	}
	w.forget(u)
	again, err := w.listVersions(ctx, u.key)
	if err != nil {
		return err
	}
	again = slices.DeleteFunc(again, func(l listed) bool { return l.Key != u.key })
	if _, ok := ln.now.fits(again); !ok {
		return fmt.Errorf("completing it again has changed the versions to %v; %s", again, ln.story())
	}
	return w.checkKey(ctx, u.key)
}

// checkParts compares the parts of an upload with what was acknowledged.
func (w *s3Worker) checkParts(ctx context.Context, u *transfer) error {
	found := map[int]string{}
	query := url.Values{"uploadId": {u.id}, "max-parts": {strconv.Itoa(1 + w.random.IntN(4))}}
	for {
		var page struct {
			IsTruncated          bool
			NextPartNumberMarker string
			Part                 []struct {
				PartNumber int
				ETag       string
				Size       int64
			}
		}
		if err := w.read(ctx, u.key, query, &page); err != nil {
			return err
		}
		for _, part := range page.Part {
			found[part.PartNumber] = strings.Trim(part.ETag, `"`)
		}
		if !page.IsTruncated {
			break
		}
		query.Set("part-number-marker", page.NextPartNumberMarker)
	}
	if u.late != 0 {
		if etag := hexMD5(u.latePut.bytes()); found[u.late] == etag {
			u.parts[u.late], u.etags[u.late] = u.latePut, etag
		}
		u.late = 0
	}
	if !maps.Equal(found, u.etags) {
		return fmt.Errorf("LOST: its parts are %v, acknowledged were %v", found, u.etags)
	}
	return nil
}
