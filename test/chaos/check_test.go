package chaos

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"penstock.dev/penstock"
)

// check asks the node for keys and compares its answers with the ledger. What it
// sees is from then on what must be.
func check(ctx context.Context, tb testing.TB, client holder, l *ledger, keys []string) {
	tb.Helper()
	work := make(chan string)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for key := range work {
				if err := checkKey(ctx, client, l, key); err != nil {
					tb.Errorf("%v", err)
				}
			}
		})
	}
	for _, key := range keys {
		work <- key
	}
	close(work)
	all.Wait()
}

func checkKey(ctx context.Context, client holder, l *ledger, key string) error {
	found, etag, err := look(ctx, client, l, key)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return l.settle(key, found, etag)
}

// look reads an object and says which state it is in.
func look(ctx context.Context, client holder, l *ledger, key string) (state, string, error) {
	r, err := client.Open(ctx, l.name(key), penstock.Range{})
	if penstock.Is(err, penstock.NotFound) {
		return state{}, "", nil
	}
	if err != nil {
		return state{}, "", err
	}
	defer r.Close()
	var data bytes.Buffer
	if _, err := r.WriteTo(&data); err != nil {
		return state{}, "", err
	}
	info := r.Info()
	for _, s := range l.candidates(key) {
		if s != (state{}) && s.mark() == markOf(info) {
			if !s.matches(data.Bytes()) {
				return s, "", fmt.Errorf("WRONG BYTES: %d of them are not those of %v", data.Len(), s)
			}
			return s, info.ETag, nil
		}
	}
	return state{}, "", fmt.Errorf("WRONG OBJECT: %q with %d bytes, possible are %v; it was %s", markOf(info), data.Len(), l.candidates(key), l.history(key))
}

// checkListing compares the listing with the ledger, in which all must be certain.
func checkListing(ctx context.Context, tb testing.TB, client holder, l *ledger) {
	tb.Helper()
	listed := map[string]int64{}
	last := ""
	for entry, err := range client.List(ctx, l.bucket, penstock.ListOptions{}) {
		if err != nil {
			tb.Errorf("listing: %v", err)
			return
		}
		if entry.Info.Name.Key <= last {
			tb.Errorf("listing: %q after %q", entry.Info.Name.Key, last)
		}
		last = entry.Info.Name.Key
		listed[last] = entry.Info.Size
	}
	for _, key := range l.keys() {
		now, _, known := l.known(key)
		size, ok := listed[key]
		delete(listed, key)
		switch {
		case !known:
			tb.Errorf("listing: %s was not checked before", key)
		case now == (state{}) && ok:
			tb.Errorf("listing: %s is listed and does not exist", key)
		case now != (state{}) && (!ok || size != now.Size):
			tb.Errorf("listing: %s holds %v; listed: %v, with %d bytes", key, now, ok, size)
		}
	}
	for key := range listed {
		tb.Errorf("listing: %s was never written", key)
	}
}

// checkSome checks everything that is uncertain, a share of the rest, and the
// listing: enough after each of many crashes.
func checkSome(ctx context.Context, tb testing.TB, random *rand.Rand, client holder, l *ledger, share float64) {
	tb.Helper()
	uncertain := l.uncertain()
	keys := slices.DeleteFunc(l.keys(), func(key string) bool {
		_, found := slices.BinarySearch(uncertain, key)
		return !found && random.Float64() >= share
	})
	check(ctx, tb, client, l, keys)
	checkListing(ctx, tb, client, l)
}

// newClient returns a client that asks once: a second request would hide what the
// first one did.
func newClient(tb testing.TB, endpoint string) *penstock.Client {
	tb.Helper()
	client, err := penstock.New(penstock.Options{Endpoint: endpoint, Attempts: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

func createBucket(tb testing.TB, client *penstock.Client, name string, opts penstock.BucketOptions) {
	tb.Helper()
	if _, err := client.CreateBucket(tb.Context(), name, opts); err != nil && !penstock.Is(err, penstock.Exists) {
		tb.Fatal(err)
	}
}
