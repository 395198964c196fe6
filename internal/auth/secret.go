package auth

import (
	"fmt"
	"log/slog"
)

// Secret is a string that does not show itself: not in logs, not in errors, not
// through any verb of fmt, not in JSON. Reveal gives it out where it is needed.
type Secret string

const redacted = "[secret]"

// Reveal returns the secret. Each call of it is a place to look at with care.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer.
func (s Secret) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return redacted }

// Format implements fmt.Formatter, so that no verb prints the bytes.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler, and thereby keeps secrets out of
// JSON that is not meant to hold them.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
