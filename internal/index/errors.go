package index

import (
	"context"
	"errors"
	"fmt"
	"io"

	"penstock.dev/penstock/internal/object"
)

// ErrDamaged is what every error about an index that does not verify wraps; its
// kind is object.Corrupt. The way out is to close the index, Reset it and build
// it again from the log.
var ErrDamaged error = &object.Error{Kind: object.Corrupt, Err: errors.New("the index is damaged")}

// errClosed answers whoever comes after Close.
var errClosed error = &object.Error{Kind: object.Unavailable, Err: errors.New("the index is closed")}

// damagedf says what does not verify, and where.
func damagedf(file string, offset int64, format string, args ...any) error {
	return object.Errorf(object.Corrupt, "%w: %s at %d: %s", ErrDamaged, file, offset, fmt.Sprintf(format, args...))
}

// diskError gives an error of the drive its kind. A file that ends before what
// it must hold was read is damage, not a failing drive.
func diskError(doing, file string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return object.Errorf(object.Corrupt, "%w: %s ends too early", ErrDamaged, file)
	}
	return object.Errorf(object.Unavailable, "%s %s: %w", doing, file, err)
}

// canceled returns the context's error with its kind, nil while it goes on.
func canceled(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return object.Errorf(object.Canceled, "index: %w", err)
	}
	return nil
}
