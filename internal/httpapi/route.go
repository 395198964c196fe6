package httpapi

import (
	"net/http"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// access says who may use a route.
type access uint8

const (
	forUsers access = iota // whoever has a token, or is on this machine alone
	forRoot                // only the root user
	forAll                 // everybody
)

// class says which slots a route's requests take.
type class uint8

const (
	dataClass    class = iota // objects
	batchClass                // many objects: each takes some MiB of memory
	controlClass              // operators: always a few of their own
)

// route is one line of the table: everything the door knows about one operation.
type route struct {
	method  string
	pattern string // the path; {key} is the rest of it, a final * anything, other names one segment
	name    string // in metrics, and as operationId
	class   class
	access  access // closed unless said otherwise
	handle  func(*API, *exchange) error
	doc     doc

	split func(x *exchange, path string, escaped bool) error // takes the variable part of the path
	slots *slots
}

// path is one pattern with its methods.
type path struct {
	pattern string
	prefix  string // the fixed part
	shape   shape
	split   func(x *exchange, path string, escaped bool) error
	allow   string // the methods, for Allow
	routes  []*route
}

// shape says what may follow the fixed part of a pattern.
type shape uint8

const (
	fixed        shape = iota // nothing
	thenOne                   // one segment
	thenTwo                   // two segments
	thenName                  // one segment, a slash, anything
	thenAnything              // anything
)

// ending is how patterns with a variable part end.
type ending struct {
	text  string
	shape shape
	split func(x *exchange, path string, escaped bool) error
}

var endings = []ending{
	{"/{bucket}", thenOne, splitBucket},
	{"/{bucket}/{key}", thenName, splitName},
	{"/{dataset}", thenOne, splitDataset},
	{"/{dataset}/{version}", thenTwo, splitVersion},
	{"/*", thenAnything, nil},
}

// router finds the route of a request. The patterns are few and tried in order;
// the ones of objects come first in the table.
type router struct{ paths []*path }

func newRouter(table []*route, slots map[class]*slots) router {
	var rt router
	byPattern := map[string]*path{}
	for _, r := range table {
		r.slots = slots[r.class]
		p := byPattern[r.pattern]
		if p == nil {
			p = parsePattern(r.pattern)
			byPattern[r.pattern] = p
			rt.paths = append(rt.paths, p)
		}
		r.split = p.split
		p.routes = append(p.routes, r)
		p.allow = strings.TrimPrefix(p.allow+", "+r.method, ", ")
	}
	return rt
}

func parsePattern(pattern string) *path {
	p := &path{pattern: pattern, prefix: pattern}
	for _, e := range endings {
		if before, ok := strings.CutSuffix(pattern, e.text); ok {
			p.prefix, p.shape, p.split = before+"/", e.shape, e.split
		}
	}
	return p
}

// match sets the exchange's route, or the methods that its path has, or neither.
// It returns the variable part of the path.
func (rt *router) match(x *exchange) (rest string, escaped bool) {
	full, escaped := rawPath(x.r)
	for _, p := range rt.paths {
		rest, ok := p.match(full)
		if !ok {
			continue
		}
		for _, r := range p.routes {
			if r.method == x.r.Method {
				x.route = r
				return rest, escaped
			}
		}
		if x.r.Method == http.MethodHead && p.routes[0].method == http.MethodGet {
			x.route = p.routes[0] // net/http leaves the body out
			return rest, escaped
		}
		x.allow = p.allow
		return "", false
	}
	return "", false
}

func (p *path) match(full string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(full, p.prefix)
	if !ok {
		return "", false
	}
	switch p.shape {
	case fixed:
		return "", rest == ""
	case thenOne:
		return rest, strings.IndexByte(rest, '/') < 0
	case thenTwo:
		return rest, strings.Count(rest, "/") == 1
	case thenName:
		return rest, strings.IndexByte(rest, '/') >= 0
	}
	return rest, true
}

// unrouted answers a path or method that is not in the table.
func (x *exchange) unrouted() error {
	if x.allow != "" {
		return &statusError{
			status: http.StatusMethodNotAllowed, allow: x.allow,
			err: object.Errorf(object.Invalid, "%.20q is not possible here, only %s", x.r.Method, x.allow),
		}
	}
	return object.Errorf(object.NotFound, "there is nothing at this path; /v1/openapi.json lists what there is")
}
