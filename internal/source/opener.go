package source

import (
	"context"
	"maps"
	"slices"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// OpenFunc opens the places of one scheme. The URL is in normal form.
type OpenFunc func(ctx context.Context, u URL) (Source, error)

// Opener opens sources by URL. Whoever makes it says what each scheme means; it is not
// to be changed in use.
type Opener struct {
	Schemes map[string]OpenFunc
}

// Open opens the place a URL names. Whether its user may is not asked here: see Allowed.
func (o *Opener) Open(ctx context.Context, url string) (Source, error) {
	u, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	open, ok := o.Schemes[u.Scheme]
	if !ok {
		return nil, object.Errorf(object.Invalid, "sources of scheme %q cannot be opened here; there are %s",
			u.Scheme, strings.Join(slices.Sorted(maps.Keys(o.Schemes)), ", "))
	}
	return open(ctx, u)
}
