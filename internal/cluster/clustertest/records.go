package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

func testRecords(s *suite) {
	_, err := s.Get(s.ctx, "a")
	s.wants(object.NotFound, err)

	created := s.put("a", "one")
	if r := s.get("a"); string(r.Value) != "one" || r.Key != "a" || r.Created != created || r.Modified != created || r.Lease != 0 {
		s.Fatalf("after a put at %d: %+v", created, r)
	}
	modified := s.put("a", "")
	if r := s.get("a"); len(r.Value) != 0 || r.Created != created || r.Modified != modified || modified <= created {
		s.Fatalf("after puts at %d and %d: %+v", created, modified, r)
	}
	if same := s.put("a", ""); same <= modified || s.get("a").Modified != same {
		s.Fatal("putting the same value is no change")
	}
	deleted := s.do(cluster.Delete("a"))
	_, err = s.Get(s.ctx, "a")
	s.wants(object.NotFound, err)
	again := s.put("a", "two")
	if r := s.get("a"); r.Created != again || again <= deleted {
		s.Fatalf("put at %d, deleted at %d, put at %d: %+v", created, deleted, again, r)
	}
}

// testBuffers sees that what is stored is not the caller's memory.
func testBuffers(s *suite) {
	value := []byte("value")
	s.do(cluster.Put("a", value))
	copy(value, "xxxxx")
	if r := s.get("a"); string(r.Value) != "value" {
		s.Fatalf("the stored value changed to %q with the caller's buffer", r.Value)
	}
}

func testPrefixes(s *suite) {
	keys := []string{"a", "a/", "a/1", "a/10", "a/2", "a0", "b/1", "b/\x00", "b/\xff", "b/\xff\xff", "b0", "\xff"}
	for i, key := range keys {
		s.put(key, fmt.Sprint(i))
	}
	for _, test := range []struct{ prefix, want string }{
		{"a/", "a/=1 a/1=2 a/10=3 a/2=4"},
		{"a/1", "a/1=2 a/10=3"},
		{"a", "a=0 a/=1 a/1=2 a/10=3 a/2=4 a0=5"},
		{"b/", "b/\x00=7 b/1=6 b/\xff=8 b/\xff\xff=9"},
		{"b/\xff", "b/\xff=8 b/\xff\xff=9"},
		{"\xff", "\xff=11"},
		{"\xff\xff", ""},
		{"c", ""},
	} {
		if got := show(s.list(test.prefix).Records); got != test.want {
			s.Errorf("under %q: %q, want %q", test.prefix, got, test.want)
		}
	}
	if all := s.list(""); len(all.Records) != len(keys) {
		s.Errorf("%d records under the empty prefix, want %d", len(all.Records), len(keys))
	}
	last := s.put("c", "")
	if view := s.list("a/"); view.Revision < last {
		s.Errorf("a list after revision %d is of revision %d", last, view.Revision)
	}
}

func testConditions(s *suite) {
	s.put("old", "v")
	old := s.get("old")
	s.put("a", "v1")
	s.put("a", "v2")
	a := s.get("a")
	never := cluster.Record{Key: "none", Modified: a.Modified}
	for i, test := range []struct {
		holds bool
		ifs   []cluster.Condition
	}{
		{true, nil},
		{true, []cluster.Condition{cluster.IfAbsent("none")}},
		{false, []cluster.Condition{cluster.IfAbsent("a")}},
		{true, []cluster.Condition{cluster.IfPresent("a")}},
		{false, []cluster.Condition{cluster.IfPresent("none")}},
		{true, []cluster.Condition{cluster.IfValue("a", []byte("v2"))}},
		{false, []cluster.Condition{cluster.IfValue("a", []byte("v1"))}},
		{false, []cluster.Condition{cluster.IfValue("none", nil)}},
		{true, []cluster.Condition{cluster.IfUnchanged(a)}},
		{false, []cluster.Condition{cluster.IfUnchanged(cluster.Record{Key: "a", Modified: a.Created})}},
		{false, []cluster.Condition{cluster.IfUnchanged(never)}},
		{true, []cluster.Condition{cluster.IfUnchanged(a), cluster.IfUnchanged(old), cluster.IfAbsent("none")}},
		{false, []cluster.Condition{cluster.IfUnchanged(a), cluster.IfUnchanged(old), cluster.IfPresent("none")}},
		{false, []cluster.Condition{cluster.IfPresent("none"), cluster.IfUnchanged(a)}},
		{true, []cluster.Condition{cluster.IfPresent("a"), cluster.IfValue("a", []byte("v2"))}},
	} {
		key := fmt.Sprintf("done/%d", i)
		_, err := s.Txn(s.ctx, cluster.Txn{If: test.ifs, Then: []cluster.Op{cluster.Put(key, nil)}})
		if !test.holds {
			s.wants(object.Stale, err)
			_, err = s.Get(s.ctx, key)
			s.wants(object.NotFound, err)
			continue
		}
		if err != nil {
			s.Fatalf("conditions %d: %v", i, err)
		}
		s.get(key)
	}
	// A record that was deleted and put again is another one.
	s.do(cluster.Delete("a"))
	s.put("a", "v2")
	_, err := s.Txn(s.ctx, cluster.Txn{If: []cluster.Condition{cluster.IfUnchanged(a)}})
	s.wants(object.Stale, err)
}

func testLimits(s *suite) {
	longest := strings.Repeat("k", cluster.MaxKey)
	largest := bytes.Repeat([]byte("v"), cluster.MaxValue)
	s.do(cluster.Put(longest, largest))
	if r := s.get(longest); !bytes.Equal(r.Value, largest) {
		s.Fatal("the largest record came back changed")
	}
	var most, tooMany cluster.Txn
	for i := range cluster.MaxOps + 1 {
		tooMany.If = append(tooMany.If, cluster.IfAbsent(fmt.Sprint("few/", i)))
		tooMany.Then = append(tooMany.Then, cluster.Put(fmt.Sprint("many/", i), nil))
	}
	most.If, most.Then = tooMany.If[1:], tooMany.Then[1:]
	_, err := s.Txn(s.ctx, most)
	s.must(err)

	half := bytes.Repeat([]byte("v"), cluster.MaxTxn/2)
	for name, txn := range map[string]cluster.Txn{
		"empty key":           {Then: []cluster.Op{cluster.Put("", nil)}},
		"empty deleted key":   {Then: []cluster.Op{cluster.Delete("")}},
		"long key":            {Then: []cluster.Op{cluster.Put(longest+"k", nil)}},
		"long condition":      {If: []cluster.Condition{cluster.IfAbsent(longest + "k")}},
		"large value":         {Then: []cluster.Op{cluster.Put("a", append(largest, 'v'))}},
		"many operations":     {Then: tooMany.Then},
		"many conditions":     {If: tooMany.If},
		"large transaction":   {Then: []cluster.Op{cluster.Put("a", half), cluster.Put("b", half)}},
		"one key twice":       {Then: []cluster.Op{cluster.Put("a", nil), cluster.Put("a", nil)}},
		"put and delete":      {Then: []cluster.Op{cluster.Put("a", nil), cluster.Delete("a")}},
		"negative revision":   {If: []cluster.Condition{{Key: "a", Revision: -1}}},
		"unknown test":        {If: []cluster.Condition{{Key: "a", Test: 77}}},
		"empty condition key": {If: []cluster.Condition{cluster.IfAbsent("")}},
	} {
		if _, err := s.Txn(s.ctx, txn); !object.Is(err, object.Invalid) {
			s.Errorf("%s: error %v, want one of kind Invalid", name, err)
		}
	}
	for _, key := range []string{"a", "b"} {
		_, err := s.Get(s.ctx, key)
		s.wants(object.NotFound, err)
	}
	for _, ttl := range []time.Duration{0, -s.TTL} {
		_, err := s.Grant(s.ctx, ttl)
		s.wants(object.Invalid, err)
	}
}

func testCanceled(s *suite) {
	s.put("a", "1")
	lease := s.grant()
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	for name, call := range map[string]func() error{
		"Get":       func() error { _, err := s.Get(ctx, "a"); return err },
		"List":      func() error { _, err := s.List(ctx, "a"); return err },
		"Txn":       func() error { _, err := s.Txn(ctx, cluster.Txn{Then: []cluster.Op{cluster.Put("b", nil)}}); return err },
		"Grant":     func() error { _, err := s.Grant(ctx, s.TTL); return err },
		"KeepAlive": func() error { return s.KeepAlive(ctx, lease.ID) },
		"Revoke":    func() error { return s.Revoke(ctx, lease.ID) },
		"Watch": func() error {
			for _, err := range s.Watch(ctx, "a", 0) {
				return err
			}
			return nil
		},
	} {
		if err := call(); !object.Is(err, object.Canceled) {
			s.Errorf("%s with an ended context: error %v, want one of kind Canceled", name, err)
		}
	}
	_, err := s.Get(s.ctx, "b")
	s.wants(object.NotFound, err)
	s.must(s.KeepAlive(s.ctx, lease.ID))
}
