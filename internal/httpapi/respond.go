package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/object"
)

// answer is what a kind of error looks like in HTTP.
type answer struct {
	status int
	retry  string // Retry-After, in seconds
	ours   bool   // nobody below has logged it
}

// answers is the one table from kinds to statuses. What depends on more than the
// kind is a statusError.
var answers = map[object.Kind]answer{
	object.Internal:    {status: http.StatusInternalServerError, ours: true},
	object.NotFound:    {status: http.StatusNotFound},
	object.Exists:      {status: http.StatusConflict},
	object.Stale:       {status: http.StatusPreconditionFailed},
	object.Denied:      {status: http.StatusForbidden},
	object.Invalid:     {status: http.StatusBadRequest},
	object.Busy:        {status: http.StatusServiceUnavailable, retry: "1"},
	object.Corrupt:     {status: http.StatusInternalServerError},
	object.Unavailable: {status: http.StatusServiceUnavailable, retry: "5"},
	object.Canceled:    {status: 499},
}

// statusError is an error with a status of its own.
type statusError struct {
	status int
	err    error
	allow  string // Allow
	size   int64  // Content-Range of a 416
	login  bool   // WWW-Authenticate
	close  bool   // the connection cannot go on
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// withStatus turns an error into one that knows its status.
func (x *exchange) withStatus(err error) *statusError {
	var own *statusError
	if errors.As(err, &own) {
		return own
	}
	var body *door.BodyError
	if errors.As(err, &body) {
		return &statusError{status: body.Status, close: body.Close, err: err}
	}
	var outside *object.RangeError
	if errors.As(err, &outside) {
		if asked := x.R.Header.Get("Range"); asked != "" {
			// In the client's words: what was made of the header further down has numbers
			// that the client never wrote.
			err = object.Errorf(object.KindOf(err), "Range %.80q lies outside %s, which has %d bytes", asked, x.name, outside.Size)
		}
		return &statusError{status: http.StatusRequestedRangeNotSatisfiable, size: outside.Size, err: err}
	}
	kind := object.KindOf(err)
	status := answers[kind].status
	if kind == object.Exists && x.R.Header["If-None-Match"] != nil {
		status = http.StatusPreconditionFailed
	}
	return &statusError{status: status, err: err}
}

type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// fail answers with an error, or cuts the connection if an answer is under way.
func (x *exchange) fail(err error) {
	if x.Sent {
		x.cut(err)
	}
	e := x.withStatus(err)
	kind := object.KindOf(err)
	how := answers[kind]
	message := e.Error()
	if how.ours {
		x.api.logError(x, err)
	}
	if kind == object.Internal {
		message = errInternal.Error()
	}
	h := x.Header()
	clear(h) // nothing of an answer that was being prepared
	h[headerError] = []string{kind.String()}
	if x.R.Method == http.MethodHead {
		h[headerError] = []string{headerText(kind.String() + ": " + message)} // there is no body to say it in
	}
	if how.retry != "" {
		h["Retry-After"] = []string{how.retry}
	}
	if e.allow != "" {
		h["Allow"] = []string{e.allow}
	}
	if e.login {
		h["Www-Authenticate"] = []string{`Bearer realm="penstock"`}
	}
	if e.status == http.StatusRequestedRangeNotSatisfiable {
		h["Content-Range"] = []string{"bytes */" + strconv.FormatInt(e.size, 10)}
	}
	if e.close || x.BodyWaits() {
		h["Connection"] = []string{"close"}
	}
	x.Status = e.status
	x.writeJSON(errorBody{errorDetail{kind.String(), message}})
}

// maxHeaderText bounds an error's message in a header.
const maxHeaderText = 200

// headerText makes a text fit for a header: one line of whole characters, not long.
func headerText(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	for len(s) > maxHeaderText {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return strings.TrimSpace(s)
}

// respond answers with JSON.
func (x *exchange) respond(status int, v any) error {
	x.Status = status
	return x.writeJSON(v)
}

func (x *exchange) writeJSON(v any) error {
	body, err := marshal(v)
	if err != nil {
		return err
	}
	return x.writeDocument(body)
}

// writeDocument sends JSON as it is.
func (x *exchange) writeDocument(body []byte) error {
	h := x.Header()
	h["Content-Type"] = jsonType
	h["X-Content-Type-Options"] = noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	_, err := x.Write(body)
	return ignoreGone(err)
}

// ignoreGone drops the error of writing to a client that left: nobody is there
// to be told.
func ignoreGone(err error) error {
	if err != nil && door.ClientGone(err) {
		return nil
	}
	return err
}

var (
	jsonType   = []string{"application/json"}
	noSniff    = []string{"nosniff"}
	sandbox    = []string{"sandbox"}
	byteRanges = []string{"bytes"}
	plainBytes = []string{"application/octet-stream"}
	plainText  = []string{"text/plain; charset=utf-8"}
)

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // keys stay readable; the answer is never HTML
	err := e.Encode(v)
	return b.Bytes(), err
}
