package chaos

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock.dev/penstock/internal/testcluster"
)

// TestS3CompletedTwice completes uploads several times at once, as clients do that were
// not answered in time, with others that abort them. Each becomes one version, or none
// if it was aborted; all who are told of it are told of the same.
func TestS3CompletedTwice(t *testing.T) {
	random := newRandom(t)
	s, _ := newS3Bad(t)
	outcomes := map[string]int{}
	for i := range setting(t, "S3_RACES", 60) {
		key := "twice"
		a := mustS3(t, s.client, 200, testcluster.S3Request{Method: "POST", Bucket: "bad", Key: key, Query: url.Values{"uploads": {""}}})
		var begun struct{ UploadId string }
		if err := xml.Unmarshal(a.Body, &begun); err != nil {
			t.Fatal(err)
		}
		u := &transfer{key: key, id: begun.UploadId, asked: []int{1}, parts: map[int]state{1: {Of: key, Number: i, Size: int64(1 + random.IntN(1<<20))}}, etags: map[int]string{}}
		data := u.parts[1].bytes()
		u.etags[1] = hexMD5(data)
		id := url.Values{"uploadId": {u.id}, "partNumber": {"1"}}
		mustS3(t, s.client, 200, testcluster.S3Request{Method: "PUT", Bucket: "bad", Key: key, Query: id, Body: data})
		completion, abort := u.completion(), testcluster.S3Request{Method: "DELETE", Bucket: "bad", Key: key, Query: url.Values{"uploadId": {u.id}}}
		completion.Bucket = "bad"
		requests := []testcluster.S3Request{completion, completion, completion}
		if i%2 == 0 {
			requests = append(requests, abort)
		}
		answers := make([]*testcluster.S3Answer, len(requests))
		var all sync.WaitGroup
		for n, r := range requests {
			all.Go(func() {
				var err error
				if answers[n], err = s.client.Do(t.Context(), r); err != nil {
					t.Error(err)
					answers[n] = &testcluster.S3Answer{Header: http.Header{}}
				}
			})
		}
		all.Wait()
		etag := u.content(u.asked).etag
		made := s.made(key, etag)
		var told []string
		for n, a := range answers {
			switch {
			case requests[n].Method == "DELETE" && (a.Status == 204 || a.Status == 404):
			case a.Status == 200:
				told = append(told, a.VersionID())
			case a.Code() != "NoSuchUpload":
				t.Errorf("upload %d: %s", i, a)
			}
		}
		told = slices.Compact(slices.Sorted(slices.Values(told)))
		if len(made) > 1 || (len(made) == 0 && len(told) > 0) || (len(told) > 0 && !slices.Equal(told, made)) || (i%2 == 1 && len(told) == 0) {
			t.Errorf("upload %d has become the versions %v; clients were told of %v", i, made, told)
		}
		outcomes[strings.Repeat("made ", len(made))]++
		if a := mustS3(t, s.client, 404, testcluster.S3Request{Method: "GET", Bucket: "bad", Key: key, Query: url.Values{"uploadId": {u.id}}}); a.Code() != "NoSuchUpload" {
			t.Errorf("upload %d is still there: %s", i, a)
		}
	}
	t.Logf("%v", outcomes)
}

// made returns the IDs of the versions of a key with an ETag.
func (s *s3Bad) made(key, etag string) []string {
	s.Helper()
	a := mustS3(s, s.client, 200, testcluster.S3Request{Method: "GET", Bucket: "bad", Query: url.Values{"versions": {""}, "prefix": {key}}})
	var page struct {
		Version []struct{ VersionId, ETag string }
	}
	if err := xml.Unmarshal(a.Body, &page); err != nil {
		s.Fatal(err)
	}
	var ids []string
	for _, v := range page.Version {
		if strings.Trim(v.ETag, `"`) == etag {
			ids = append(ids, v.VersionId)
		}
	}
	return ids
}

// shared is a version of a key that several write at once.
type shared struct {
	key        string
	id         string // empty: there was no answer
	content    state  // zero for a mark of a deletion
	etag       string
	begin, end int64 // of its request, in the order of all; no end without an answer
	gone, open bool  // a delete of it was acknowledged; was not answered
}

// TestS3Together lets several write versions of the same keys at once, and kills the
// node. Each deletes only what it wrote itself, so that every version has one story.
func TestS3Together(t *testing.T) {
	random := newRandom(t)
	s := newS3Subject(t, random, 0, dataDir(t), dataDir(t))
	client := s.s3
	mustS3(t, client, 200, testcluster.S3Request{Method: "PUT", Bucket: "together"})
	var clock atomic.Int64
	lead := &s3Worker{client: client, random: child(random), outage: &s.outage, bucket: "together", acked: &s.acked}
	if err := lead.version(t.Context()); err != nil {
		t.Fatal(err)
	}
	const workers = 6
	all := make([][]*shared, workers)
	sources := make([]*rand.Rand, workers)
	for i := range sources {
		sources[i] = child(random)
	}
	rounds := setting(t, "S3_TOGETHER", 8)
	for round := range rounds {
		var working sync.WaitGroup
		for i := range workers {
			working.Go(func() {
				for s.together(t, sources[i], &clock, i, &all[i]) {
				}
			})
		}
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		s.node.Kill()
		working.Wait()
		client.HTTP.CloseIdleConnections()
		s.start()
		found, err := lead.listVersions(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		checkShared(t, found, slices.Concat(all...))
		if t.Failed() {
			t.Fatalf("after kill %d", round+1)
		}
	}
	for _, v := range slices.Concat(all...) {
		if v.id == "" || v.gone || v.content == (state{}) {
			continue
		}
		a := mustS3(t, client, 200, testcluster.S3Request{Method: "GET", Bucket: "together", Key: v.key, Query: url.Values{"versionId": {v.id}}})
		if !v.content.matches(a.Body) || a.ETag() != v.etag {
			t.Errorf("WRONG BYTES: %d of them are not those of %+v", len(a.Body), *v)
		}
	}
	t.Logf("%d kills, %d requests acknowledged", rounds, s.acked.Load())
}

// together does one operation, and reports whether it was answered.
func (s *s3Subject) together(t *testing.T, random *rand.Rand, clock *atomic.Int64, worker int, mine *[]*shared) bool {
	r := testcluster.S3Request{Method: "DELETE", Bucket: "together", Key: fmt.Sprintf("shared%d", random.IntN(3))}
	v := &shared{key: r.Key, begin: clock.Add(1)}
	act := random.IntN(10)
	switch {
	case act < 3 && len(*mine) > 0:
		v = (*mine)[random.IntN(len(*mine))]
		if v.id == "" {
			return true
		}
		r.Key, r.Query = v.key, url.Values{"versionId": {v.id}}
		v.open = !v.gone
	case act < 8:
		v.content = state{Of: fmt.Sprint("together", worker), Number: len(*mine) + 1, Size: min(randomSize(random), 700<<10)}
		r.Method, r.Body = "PUT", v.content.bytes()
		v.etag = hexMD5(r.Body)
		fallthrough
	default:
		*mine = append(*mine, v)
	}
	a, err := s.s3.Do(t.Context(), r)
	switch {
	case err != nil || a.Status >= 500:
		return false
	case a.Status >= 300:
		t.Errorf("%s %s: %s", r.Method, r.Key, a)
		return false
	case r.Query != nil:
		v.gone, v.open = true, false
	default:
		v.id, v.end = a.VersionID(), clock.Add(1)
	}
	s.acked.Add(1)
	return true
}

// checkShared compares a listing with what all know. A version without an answer that
// is there gets its ID, and must stay.
func checkShared(t *testing.T, found []listed, all []*shared) {
	t.Helper()
	known := map[string]*shared{}
	for _, v := range all {
		if v.id != "" {
			known[v.id] = v
		}
	}
	seen := map[string]bool{}
	var before *shared
	for i, line := range found {
		latest := i == 0 || found[i-1].Key != line.Key
		if line.IsLatest != latest || seen[line.VersionId] {
			t.Errorf("%+v: latest should be %v, listed twice: %v", line, latest, seen[line.VersionId])
		}
		seen[line.VersionId] = true
		v := known[line.VersionId]
		if v == nil {
			n := slices.IndexFunc(all, func(v *shared) bool { return v.id == "" && v.key == line.Key && v.etag == line.ETag })
			if n < 0 {
				t.Errorf("nobody wrote %+v", line)
				continue
			}
			v = all[n]
			v.id = line.VersionId
		}
		if v.gone || v.etag != line.ETag || v.key != line.Key || line.marker() != (v.content == state{}) {
			t.Errorf("%+v is listed, and %+v was acknowledged", line, *v)
		}
		if !latest && before != nil && before.end != 0 && before.end < v.begin {
			t.Errorf("%+v is listed as newer than %+v", *before, *v)
		}
		before = v
	}
	for _, v := range all {
		switch {
		case v.id == "" || seen[v.id]:
			v.open = false
		case v.open:
			v.gone, v.open = true, false
		case !v.gone:
			t.Errorf("LOST: %+v", *v)
		}
	}
}
