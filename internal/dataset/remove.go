package dataset

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// Remove takes a version away, or all if its number is 0, and removes those of its
// shards that no other version has. Shards that were taken as they were found, and
// lie elsewhere, stay. If it breaks off, no version lacks anything, and what is left
// is removed by nobody. Beside it a Create of the same name that builds on what is
// removed either fails or has published its version before: then the shards which that
// one keeps stay.
func Remove(ctx context.Context, place Place, version uint64) error {
	release, err := place.hold()
	if err != nil {
		return err
	}
	defer release()
	published, last, err := place.versions(ctx)
	if err != nil {
		return err
	}
	if version != 0 {
		if !slices.Contains(published, version) {
			return object.Errorf(object.NotFound, "there is no version %d in %s", version, place)
		}
		published = []uint64{version}
	}
	shards := map[string]bool{}
	for _, v := range published {
		if err := shardNames(ctx, place, v, func(name string) { shards[name] = made(name, last) }); err != nil {
			return err
		}
	}
	var own []string
	for _, v := range published {
		rest, err := place.withdraw(ctx, v)
		if err != nil {
			return err
		}
		own = append(own, rest...)
	}
	// A version may have been published meanwhile.
	stay, _, err := place.versions(ctx)
	if err != nil {
		return err
	}
	for _, v := range stay {
		if err := shardNames(ctx, place, v, func(name string) { delete(shards, name) }); err != nil {
			return err
		}
	}
	for name, mine := range shards {
		if mine {
			own = append(own, name)
		}
	}
	return place.remove(ctx, own)
}

// made reports whether something of a dataset was written for one of its versions, by
// its name, and not found there.
func made(name string, last uint64) bool {
	folder, _, ok := strings.Cut(name, "/")
	version, err := strconv.ParseUint(folder, 10, 64)
	return ok && err == nil && version > 0 && version <= last && folderName(version) == folder
}

// shardNames calls each for the shards of a version.
func shardNames(ctx context.Context, place Place, version uint64, each func(string)) error {
	m, err := place.manifest(ctx, version)
	if err != nil {
		return err
	}
	for i := range m.Shards() {
		s, err := m.Shard(i)
		if err != nil {
			return err
		}
		each(s.Name)
	}
	return nil
}
