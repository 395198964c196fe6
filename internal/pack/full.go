package pack

import (
	"penstock.dev/penstock/internal/object"
)

// FullError says that there was no room for a record; nothing was changed.
type FullError struct{ Err error }

func (e *FullError) Error() string { return "disk is full: " + e.Err.Error() }

// Unwrap returns the file system's error.
func (e *FullError) Unwrap() error { return e.Err }

func full(err error) error {
	return &object.Error{Kind: object.Unavailable, Err: &FullError{Err: err}}
}
