package s3api

import (
	"net/http"
	"slices"
)

// scope is what an operation is about.
type scope uint8

const (
	ofService scope = iota
	ofBucket
	ofObject
)

// operation is one line of the table: everything the door knows about it.
type operation struct {
	name   string // S3's
	scope  scope
	method string

	// with are parameters of the query that must be there, and header one of the
	// request. Of several operations that fit, the one that asks for most is meant.
	with   []string
	header string

	// action is what the caller needs the right to, and versionAction the same for a
	// request with a versionId. A handler that touches more than the bucket and key of
	// the request asks for that itself: see call.allow. Empty means that the caller's
	// rights are looked at by the handler alone, which the tests of rights know of.
	action, versionAction string

	// makes says that the bucket need not exist.
	makes bool

	handle func(*API, *call) error
}

// bodiless reports whether the body of a request means nothing to the operation.
func (op *operation) bodiless() bool {
	switch op.method {
	case http.MethodGet, http.MethodHead, http.MethodDelete:
		return true
	}
	return op.header != "" || op.name == "CreateMultipartUpload"
}

// operations returns the table. What S3 has and this door has not is in unsupported.go.
func operations() []*operation {
	all := slices.Concat(
		serviceOperations(), bucketOperations(), listOperations(), versioningOperations(), objectOperations(), deleteOperations(),
		multipartOperations(), taggingOperations(), accessOperations(), publicBlockOperations(), formOperations(), unsupportedOperations(),
	)
	return all
}

// table finds the operation of a request.
type table struct {
	operations []*operation
	byTarget   map[target][]*operation // those that ask for most first

	subresources map[string]bool
}

type target struct {
	scope  scope
	method string
}

func newTable() table {
	t := table{operations: operations(), byTarget: make(map[target][]*operation)}
	for _, op := range t.operations {
		at := target{op.scope, op.method}
		t.byTarget[at] = append(t.byTarget[at], op)
	}
	t.subresources = subresources(t.operations)
	for _, ops := range t.byTarget {
		slices.SortStableFunc(ops, func(a, b *operation) int { return b.asks() - a.asks() })
	}
	return t
}

func (op *operation) asks() int {
	n := 2 * len(op.with)
	if op.header != "" {
		n++
	}
	return n
}

func (t *table) find(c *call) (*operation, error) {
	at := target{ofService, c.R.Method}
	switch {
	case c.key != "":
		at.scope = ofObject
	case c.bucket != "":
		at.scope = ofBucket
	}
	for _, op := range t.byTarget[at] {
		if op.fits(c) {
			return op, t.meant(op, c)
		}
	}
	return nil, fault(methodNotAllowed)
}

func (op *operation) fits(c *call) bool {
	for _, name := range op.with {
		if c.query[name] == nil {
			return false
		}
	}
	return op.header == "" || c.amz(http.CanonicalHeaderKey(op.header)) != ""
}
