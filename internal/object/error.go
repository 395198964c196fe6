package object

import (
	"context"
	"errors"
	"fmt"
)

// Kind is the class of an error: what the caller can do about it. The list is
// closed; each door turns a kind into its own status in one table.
type Kind uint8

// The kinds of error.
const (
	Internal    Kind = iota // a fault of ours
	NotFound                // there is no such bucket, object or member
	Exists                  // it is there already, and that was ruled out
	Stale                   // the condition on version or ETag does not hold
	Denied                  // the caller has no right to it
	Invalid                 // the request makes no sense; repeating it will not help
	Busy                    // too much is going on; repeat later
	Corrupt                 // the stored bytes are not the ones that were written
	Unavailable             // a disk, node or source that is needed cannot be used now
	Canceled                // the caller went away or its time was up
)

var kindNames = [...]string{
	Internal: "Internal", NotFound: "NotFound", Exists: "Exists", Stale: "Stale", Denied: "Denied",
	Invalid: "Invalid", Busy: "Busy", Corrupt: "Corrupt", Unavailable: "Unavailable", Canceled: "Canceled",
}

// Kinds returns all kinds, for tables that must be complete.
func Kinds() []Kind {
	all := make([]Kind, len(kindNames))
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String returns the kind's name as it stands in the API.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "Internal"
}

// ParseKind is the inverse of String; unknown names are Internal.
func ParseKind(s string) Kind {
	for k, name := range kindNames {
		if name == s {
			return Kind(k)
		}
	}
	return Internal
}

// Error is the one error type that crosses package borders with a meaning.
type Error struct {
	Kind Kind
	Err  error
}

// Error returns the message of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error of a kind; %w works as in fmt.Errorf.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// KindOf returns the kind of err: that of the outermost *Error in its chain,
// Canceled for the context's errors, Internal for all others.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Canceled
	}
	return Internal
}

// Is reports whether err is of the given kind. A nil error is of none.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// ErrIncomplete is what a listing yields before its entries when a disk or node
// that may hold some of them cannot be asked. A caller may note it and go on.
var ErrIncomplete = &Error{Kind: Unavailable, Err: errors.New("the listing is incomplete: a disk cannot be read")}

// MarkerError says that what was asked for is the mark of a deletion. As the newest
// version it is NotFound; asked for by its ID it is Invalid.
type MarkerError struct {
	Name Name // with its ID
	Info Info
}

// IsMarker reports whether an error is a MarkerError.
func IsMarker(err error) bool {
	var marker *MarkerError
	return errors.As(err, &marker)
}

func (e *MarkerError) Error() string { return e.Name.String() + " is deleted" }
