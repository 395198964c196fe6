package httpapi

import (
	"net/http"

	"penstock.dev/penstock/internal/object"
)

// What tests need to see from inside: the parsers that are fuzzed, and the table
// of routes, from which the tests of access are made.
var (
	ParseList = parseList
)

// RouteInfo is a line of the table.
type RouteInfo struct {
	Method, Pattern, Name string
	Open, Root            bool
	Action                string // what the caller must be allowed to do
}

// Routes returns the table.
func Routes() []RouteInfo {
	var all []RouteInfo
	for _, r := range routes() {
		all = append(all, RouteInfo{r.method, r.pattern, r.name, r.access == forAll, r.access == forRoot, r.action})
	}
	return all
}

// SetHandler replaces the handler of a route.
func (a *API) SetHandler(name string, handle func()) {
	for _, p := range a.router.paths {
		for _, r := range p.routes {
			if r.name == name {
				r.handle = func(*API, *exchange) error {
					handle()
					return nil
				}
			}
		}
	}
}

// Answers is the number of kinds of error that have a status.
func Answers() int { return len(answers) }

// RefusalBody is what a connection too many is told.
const RefusalBody = refusalBody

// Route returns the name and the route of a request, if it has both.
func (a *API) Route(r *http.Request) (object.Name, string, error) {
	x := &exchange{api: a}
	x.R = r
	rest, escaped := a.router.match(x)
	if x.route == nil || x.route.split == nil {
		return object.Name{}, x.routeName(), nil
	}
	err := x.route.split(x, rest, escaped)
	return x.name, x.route.name, err
}
