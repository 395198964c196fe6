package source

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// BusyError is the cause of a Busy: the place asked for a pause.
type BusyError struct {
	After time.Duration // how long to wait, zero if it did not say
	Err   error
}

func (e *BusyError) Error() string { return e.Err.Error() }

// Unwrap returns what the place said.
func (e *BusyError) Unwrap() error { return e.Err }

// Busy makes an error of kind Busy that carries how long to wait.
func Busy(after time.Duration, format string, args ...any) error {
	return &object.Error{Kind: object.Busy, Err: &BusyError{After: after, Err: fmt.Errorf(format, args...)}}
}

// RetryAfter returns how long a place asked to be left alone, zero if it did not.
func RetryAfter(err error) time.Duration {
	var busy *BusyError
	if errors.As(err, &busy) {
		return busy.After
	}
	return 0
}

// Retryable reports whether to do the same again may succeed.
func Retryable(err error) bool {
	return object.Is(err, object.Busy) || object.Is(err, object.Unavailable)
}

// maxRetryAfter bounds what a place may ask for; one that is confused does not stop us
// for a year.
const maxRetryAfter = time.Hour

// ParseRetryAfter reads the HTTP header: seconds, or a date. What makes no sense is zero.
func ParseRetryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	var after time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(header); err == nil {
		after = date.Sub(now)
	}
	return min(max(after, 0), maxRetryAfter)
}
