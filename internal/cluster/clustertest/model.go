package clustertest

import (
	"fmt"
	"maps"
	"slices"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// testModel does random transactions and compares all states with a map, and with
// what a watch makes of them.
func testModel(s *suite) {
	type entry struct {
		value             string
		created, modified int64
	}
	model := map[string]entry{}
	states := map[int64]string{}
	render := func() string {
		out := ""
		for _, key := range slices.Sorted(maps.Keys(model)) {
			out += fmt.Sprintf("%s=%s/%d/%d ", key, model[key].value, model[key].created, model[key].modified)
		}
		return out
	}
	first := s.put("start", "")
	last := first // the last revision that changed something
	for range 10 * s.Rounds {
		var txn cluster.Txn
		want, changes := true, false
		for range s.random.IntN(3) {
			key := fmt.Sprint("k/", s.random.IntN(8))
			have, there := model[key]
			switch s.random.IntN(4) {
			case 0:
				txn.If, want = append(txn.If, cluster.IfAbsent(key)), want && !there
			case 1:
				txn.If, want = append(txn.If, cluster.IfPresent(key)), want && there
			case 2:
				txn.If, want = append(txn.If, cluster.IfValue(key, []byte(have.value))), want && there
			case 3:
				r := cluster.Record{Key: key, Modified: have.modified}
				txn.If = append(txn.If, cluster.IfUnchanged(r))
			}
		}
		for _, k := range s.random.Perm(8)[:s.random.IntN(4)] {
			key := fmt.Sprint("k/", k)
			_, there := model[key]
			if s.random.IntN(3) == 0 {
				txn.Then, changes = append(txn.Then, cluster.Delete(key)), changes || there
			} else {
				txn.Then, changes = append(txn.Then, cluster.Put(key, []byte(fmt.Sprint(s.random.IntN(100))))), true
			}
		}
		revision, err := s.Txn(s.ctx, txn)
		if !want {
			s.wants(object.Stale, err)
			continue
		}
		s.must(err)
		if revision < last || changes && revision == last {
			s.Fatalf("%+v after %d has revision %d", txn, last, revision)
		}
		if changes {
			last = revision
		}
		for _, op := range txn.Then {
			e := entry{string(op.Value), revision, revision}
			if old, there := model[op.Key]; there {
				e.created = old.created
			}
			if model[op.Key] = e; op.Delete {
				delete(model, op.Key)
			}
		}
		states[revision] = render()
		got := ""
		for _, r := range s.list("k/").Records {
			got += fmt.Sprintf("%s=%s/%d/%d ", r.Key, r.Value, r.Created, r.Modified)
		}
		if got != states[revision] {
			s.Fatalf("at revision %d: %s, want %s", revision, got, states[revision])
		}
	}

	clear(model)
	for change, err := range s.Watch(s.ctx, "k/", first) {
		s.must(err)
		for _, e := range change.Events {
			if model[e.Key] = (entry{string(e.Value), e.Created, e.Modified}); e.Deleted {
				delete(model, e.Key)
			}
		}
		if got := render(); got != states[change.Revision] {
			s.Fatalf("watched up to %d: %s, want %s", change.Revision, got, states[change.Revision])
		}
		if change.Revision == last {
			return
		}
	}
}
