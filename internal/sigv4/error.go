package sigv4

import (
	"errors"
	"fmt"
	"net/http"

	"penstock.dev/penstock/internal/object"
)

// Code is S3's name of an error. The list is closed.
type Code string

// The codes of errors of this package.
const (
	AccessDenied                      Code = "AccessDenied"
	AuthorizationHeaderMalformed      Code = "AuthorizationHeaderMalformed"
	AuthorizationQueryParametersError Code = "AuthorizationQueryParametersError"
	BadDigest                         Code = "BadDigest"
	IncompleteBody                    Code = "IncompleteBody"
	InvalidAccessKeyID                Code = "InvalidAccessKeyId"
	InvalidArgument                   Code = "InvalidArgument"
	InvalidDigest                     Code = "InvalidDigest"
	InvalidPolicyDocument             Code = "InvalidPolicyDocument"
	InvalidRequest                    Code = "InvalidRequest"
	InvalidToken                      Code = "InvalidToken"
	InvalidURI                        Code = "InvalidURI"
	MalformedTrailerError             Code = "MalformedTrailerError"
	MissingContentLength              Code = "MissingContentLength"
	NotImplemented                    Code = "NotImplemented"
	RequestTimeTooSkewed              Code = "RequestTimeTooSkewed"
	SignatureDoesNotMatch             Code = "SignatureDoesNotMatch"
	XAmzContentSHA256Mismatch         Code = "XAmzContentSHA256Mismatch"
)

// Status returns the HTTP status that goes with the code.
func (c Code) Status() int {
	switch c {
	case AccessDenied, InvalidAccessKeyID, RequestTimeTooSkewed, SignatureDoesNotMatch:
		return http.StatusForbidden
	case MissingContentLength:
		return http.StatusLengthRequired
	case NotImplemented:
		return http.StatusNotImplemented
	}
	return http.StatusBadRequest
}

// Error is why a request, or the content of one, is refused. The message is for the
// client; it holds no secret and no signature, but may repeat what the client sent.
type Error struct {
	Code    Code
	Message string
}

// Error returns code and message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap makes object.KindOf say Denied or Invalid.
func (e *Error) Unwrap() error {
	kind := object.Invalid
	if e.Code.Status() == http.StatusForbidden {
		kind = object.Denied
	}
	return &object.Error{Kind: kind, Err: errors.New(e.Message)}
}

func fail(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

var (
	errAccessKey  = fail(InvalidAccessKeyID, "The AWS Access Key Id you provided does not exist in our records.")
	errExpired    = fail(AccessDenied, "Request has expired")
	errIncomplete = fail(IncompleteBody, "You did not provide the number of bytes specified by the Content-Length HTTP header.")
	errMechanism  = fail(InvalidRequest, "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.")
	errSignature  = fail(SignatureDoesNotMatch, "The request signature we calculated does not match the signature you provided. Check your key and signing method.")
	errSkewed     = fail(RequestTimeTooSkewed, "The difference between the request time and the current time is too large.")
	errToken      = fail(InvalidToken, "The provided token is malformed or otherwise invalid: there are no session tokens here.")
	errTwoWays    = fail(InvalidArgument, "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the Authorization header should be specified")
	errUnsigned   = fail(AccessDenied, "There were headers present in the request which were not signed")
)
