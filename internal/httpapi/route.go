package httpapi

import (
	"net/http"
	"strings"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/object"
)

// access says who may use a route.
type access uint8

const (
	forRoot    access = iota // only the root user; what is not said otherwise
	forAllowed               // users who may do the route's action
	forUsers                 // whoever has a token, or is on this machine alone
	forAll                   // everybody
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
	action  string // what the caller must be allowed to do: see package policy
	permit  permit // finds what the request is about, and asks; nil means permitName
	handle  func(*API, *exchange) error
	doc     doc

	split func(x *exchange, path string, escaped bool) error // takes the variable part of the path
	slots *door.Slots
}

// permit returns nil if the caller may do a request's action with what it is about.
type permit func(*API, *exchange) error

// path is one pattern with its methods.
type path struct {
	pattern string
	prefix  string // the fixed part
	tail    string // the fixed part behind the variable one
	shape   shape
	split   func(x *exchange, path string, escaped bool) error
	allow   string // the methods, for Allow
	routes  []*route
}

// shape says what may follow the fixed part of a pattern.
type shape uint8

const (
	fixed        shape = iota // nothing
	thenOne                   // one segment, and the tail
	thenTwo                   // two segments
	thenName                  // one segment, a slash, anything
	thenAnything              // anything
)

// ending is how patterns with a variable part end.
type ending struct {
	text  string
	tail  string // what of the text is behind the variable part
	shape shape
	split func(x *exchange, path string, escaped bool) error
}

var endings = []ending{
	{"/{bucket}", "", thenOne, splitBucket},
	{"/{bucket}/grants", "/grants", thenOne, splitBucket},
	{"/{bucket}/policy", "/policy", thenOne, splitBucket},
	{"/{bucket}/{key}", "", thenName, splitName},
	{"/{dataset}", "", thenOne, splitDataset},
	{"/{dataset}/{version}", "", thenTwo, splitVersion},
	{"/{user}", "", thenOne, splitUser},
	{"/{user}/token", "/token", thenOne, splitUser},
	{"/*", "", thenAnything, nil},
}

// router finds the route of a request. The patterns are few and tried in order;
// the ones of objects come first in the table.
type router struct{ paths []*path }

func newRouter(table []*route, slots map[class]*door.Slots) router {
	var rt router
	byPattern := map[string]*path{}
	for _, r := range table {
		r.slots = slots[r.class]
		if r.permit == nil {
			r.permit = permitName
		}
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
			p.prefix, p.tail, p.shape, p.split = before+"/", e.tail, e.shape, e.split
		}
	}
	return p
}

// match sets the exchange's route, or the methods that its path has, or neither.
// It returns the variable part of the path.
func (rt *router) match(x *exchange) (rest string, escaped bool) {
	full, escaped := rawPath(x.R)
	for _, p := range rt.paths {
		rest, ok := p.match(full)
		if !ok {
			continue
		}
		for _, r := range p.routes {
			if r.method == x.R.Method {
				x.route = r
				return rest, escaped
			}
		}
		if x.R.Method == http.MethodHead && p.routes[0].method == http.MethodGet {
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
		rest, ok = strings.CutSuffix(rest, p.tail)
		return rest, ok && strings.IndexByte(rest, '/') < 0
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
			err: object.Errorf(object.Invalid, "%.20q is not possible here, only %s", x.R.Method, x.allow),
		}
	}
	return object.Errorf(object.NotFound, "there is nothing at this path; /v1/openapi.json lists what there is")
}
