package httpapi

import (
	"net/http"
	"runtime/debug"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

// exchange is one request and its answer, with what the native door knows of them.
// Exchanges are used again, so nobody may keep one.
type exchange struct {
	door.Exchange
	api   *API
	route *route // nil if there is none
	allow string // methods of the path, if only the method was wrong
	name  object.Name
	user  auth.User

	dataset  string
	version  int64 // of the dataset
	userName string

	// What permit has read for the handler.
	refs    []object.Ref
	source  object.Name // to copy
	set     node.Dataset
	publish publishJSON
	eachKey bool // of a put-batch: whether each key must be asked about
}

func (x *exchange) begin(a *API, w http.ResponseWriter, r *http.Request) {
	x.Begin(a.door, w, r)
	x.api = a
}

// end drops what must not live on in the pool.
func (x *exchange) end() {
	x.End()
	*x = exchange{Exchange: x.Exchange}
}

func (x *exchange) routeName() string {
	if x.route == nil {
		return "none"
	}
	return x.route.name
}

// cut ends the connection, so that the client cannot take what it has for the
// whole answer.
func (x *exchange) cut(err error) {
	if !door.ClientGone(err) {
		x.api.logError(x, err)
	}
	panic(http.ErrAbortHandler)
}

func stack() string {
	s := debug.Stack()
	return string(s[:min(len(s), 8<<10)])
}
