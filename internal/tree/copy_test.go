package tree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/tree"
)

func TestCopy(t *testing.T) {
	r := newRig(t)
	for _, key := range []string{"a/1", "a/2", "a/b/3", "a", "ab", "c/0", "c/2", "c/b/3"} {
		r.put(key, "content")
	}
	r.put("c/2", "another")
	opts, told := options()
	report, err := tree.Copy(t.Context(), r.client, tree.Place{Bucket: bucket, Prefix: "c"}, tree.Place{Bucket: bucket, Prefix: "a"}, opts)
	r.want(report, err, tree.Report{Files: 2, Bytes: 14, Unchanged: 1})
	if keys := r.keys("c/"); !slices.Equal(keys, []string{"c/0", "c/1", "c/2", "c/b/3"}) {
		t.Errorf("%q", keys)
	}
	if data, err := r.client.Get(t.Context(), penstock.Name{Bucket: bucket, Key: "c/2"}); string(data) != "content" {
		t.Errorf("%q, %v", data, err)
	}
	opts.Force = true
	report, err = tree.Copy(t.Context(), r.client, tree.Place{Bucket: bucket, Prefix: "c"}, tree.Place{Bucket: bucket, Prefix: "a"}, opts)
	r.want(report, err, tree.Report{Files: 3, Bytes: 21})
	r.wantNames(told.failed)

	// Not into itself; up from a directory only what does not fall back into it.
	for _, to := range []string{"a", "a/", "a/b", "a/x/y"} {
		if _, err := tree.Copy(t.Context(), r.client, tree.Place{Bucket: bucket, Prefix: to}, tree.Place{Bucket: bucket, Prefix: "a"}, opts); !penstock.Is(err, penstock.Invalid) {
			t.Errorf("%s: %v", to, err)
		}
	}
	r.put("a/a/1", "a copy of it would lie in a/")
	opts, told = options()
	report, err = tree.Copy(t.Context(), r.client, tree.Place{Bucket: bucket}, tree.Place{Bucket: bucket, Prefix: "a"}, opts)
	r.want(report, err, tree.Report{Files: 3, Bytes: 21, Failed: 1})
	r.wantNames(told.failed, bucket+"/a/a/1")
	if _, err := tree.Copy(t.Context(), r.client, tree.Place{Bucket: bucket, Prefix: "x"}, tree.Place{Bucket: bucket, Prefix: "none"}, opts); !penstock.Is(err, penstock.NotFound) {
		t.Error(err)
	}
}

func TestRemove(t *testing.T) {
	r := newRig(t)
	for i := range 300 {
		r.put(fmt.Sprintf("a/%d", i), "content")
	}
	for _, key := range []string{"a", "ab", "b/1"} {
		r.put(key, "content")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.atRequest(1, "/v1/objects/"+bucket+"/a/150", cancel)
	first, err := tree.Remove(ctx, r.client, bucket, "a", tree.Options{})
	if !errors.Is(err, context.Canceled) || first.Files >= 300 || first.Failed > 0 {
		t.Errorf("%+v, %v", first, err)
	}
	// Deletes that were on their way may still happen.
	report, err := tree.Remove(t.Context(), r.client, bucket, "a", tree.Options{})
	if err != nil || report.Failed > 0 || report.Files > 300-first.Files || report.Bytes != 7*report.Files {
		t.Errorf("%+v after %+v, %v", report, first, err)
	}
	if keys := r.keys(""); !slices.Equal(keys, []string{"a", "ab", "b/1"}) {
		t.Errorf("%q", keys)
	}
	report, err = tree.Remove(t.Context(), r.client, bucket, "a", tree.Options{})
	r.want(report, err, tree.Report{})
	report, err = tree.Remove(t.Context(), r.client, bucket, "", tree.Options{})
	r.want(report, err, tree.Report{Files: 3, Bytes: 21})
	if _, err := tree.Remove(t.Context(), r.client, "no-such-bucket", "", tree.Options{}); !penstock.Is(err, penstock.NotFound) {
		t.Error(err)
	}
}
