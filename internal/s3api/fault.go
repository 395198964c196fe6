package s3api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/policy"
	"penstock.dev/penstock/internal/sigv4"
)

// code is S3's name of an error, with the status and text that go with it.
type code struct {
	name    string
	status  int
	message string
}

// The codes of this door. Those of package sigv4 are its own.
var (
	accessDenied       = &code{"AccessDenied", http.StatusForbidden, "Access Denied"}
	badRequest         = &code{"BadRequest", http.StatusBadRequest, "Insufficient information. Origin request header needed."}
	badDigest          = &code{"BadDigest", http.StatusBadRequest, "The Content-MD5 or checksum value that you specified did not match what the server received."}
	bucketExists       = &code{"BucketAlreadyExists", http.StatusConflict, "The requested bucket name is not available."}
	bucketNotEmpty     = &code{"BucketNotEmpty", http.StatusConflict, "The bucket that you tried to delete is not empty."}
	corsForbidden      = &code{"AccessForbidden", http.StatusForbidden, "CORSResponse: CORS is not enabled for this bucket."}
	entityTooLarge     = &code{"EntityTooLarge", http.StatusBadRequest, "Your proposed upload exceeds the maximum allowed object size."}
	entityTooSmall     = &code{"EntityTooSmall", http.StatusBadRequest, "Your proposed upload is smaller than the minimum allowed object size."}
	illegalVersioning  = &code{"IllegalVersioningConfigurationException", http.StatusBadRequest, "The versioning configuration specified in the request is invalid."}
	incompleteBody     = &code{"IncompleteBody", http.StatusBadRequest, "You did not provide the number of bytes specified by the Content-Length HTTP header."}
	internalError      = &code{"InternalError", http.StatusInternalServerError, "We encountered an internal error. The node's log says more."}
	invalidArgument    = &code{"InvalidArgument", http.StatusBadRequest, "Invalid Argument"}
	invalidBucketName  = &code{"InvalidBucketName", http.StatusBadRequest, "The specified bucket is not valid."}
	invalidDigest      = &code{"InvalidDigest", http.StatusBadRequest, "The Content-MD5 that you specified is not valid."}
	invalidLocation    = &code{"InvalidLocationConstraint", http.StatusBadRequest, "The specified location constraint is not valid."}
	invalidPart        = &code{"InvalidPart", http.StatusBadRequest, "One or more of the specified parts could not be found. The part might not have been uploaded, or the specified entity tag might not have matched the part's entity tag."}
	invalidPartOrder   = &code{"InvalidPartOrder", http.StatusBadRequest, "The list of parts was not in ascending order. The parts list must be specified in order by part number."}
	invalidRange       = &code{"InvalidRange", http.StatusRequestedRangeNotSatisfiable, "The requested range is not satisfiable"}
	invalidRequest     = &code{"InvalidRequest", http.StatusBadRequest, "Invalid Request"}
	invalidTag         = &code{"InvalidTag", http.StatusBadRequest, "The tag provided was not a valid tag."}
	invalidURI         = &code{"InvalidURI", http.StatusBadRequest, "The specified URI couldn't be parsed."}
	keyTooLong         = &code{"KeyTooLongError", http.StatusBadRequest, "Your key is too long."}
	malformedPolicy    = &code{"MalformedPolicy", http.StatusBadRequest, "The policy is malformed."}
	malformedPOST      = &code{"MalformedPOSTRequest", http.StatusBadRequest, "The body of your POST request is not well-formed multipart/form-data."}
	malformedXML       = &code{"MalformedXML", http.StatusBadRequest, "The XML that you provided was not well formed or did not validate against our published schema."}
	metadataTooLarge   = &code{"MetadataTooLarge", http.StatusBadRequest, "Your metadata headers exceed the maximum allowed metadata size."}
	methodNotAllowed   = &code{"MethodNotAllowed", http.StatusMethodNotAllowed, "The specified method is not allowed against this resource."}
	noSuchBucket       = &code{"NoSuchBucket", http.StatusNotFound, "The specified bucket does not exist"}
	noSuchKey          = &code{"NoSuchKey", http.StatusNotFound, "The specified key does not exist."}
	noSuchPolicy       = &code{"NoSuchBucketPolicy", http.StatusNotFound, "The bucket policy does not exist"}
	noSuchTagSet       = &code{"NoSuchTagSet", http.StatusNotFound, "The TagSet does not exist"}
	noSuchUpload       = &code{"NoSuchUpload", http.StatusNotFound, "The specified multipart upload does not exist. The upload ID might be invalid, or the multipart upload might have been aborted or completed."}
	noSuchVersion      = &code{"NoSuchVersion", http.StatusNotFound, "The specified version does not exist."}
	notImplemented     = &code{"NotImplemented", http.StatusNotImplemented, "A header or parameter that you provided implies functionality that is not implemented."}
	preconditionFailed = &code{"PreconditionFailed", http.StatusPreconditionFailed, "At least one of the preconditions that you specified did not hold."}
	quotaExceeded      = &code{"QuotaExceeded", http.StatusForbidden, "The bucket's quota does not allow it."}
	requestTimeout     = &code{"RequestTimeout", http.StatusBadRequest, "Your socket connection to the server was not read from or written to within the timeout period."}
	serviceUnavailable = &code{"ServiceUnavailable", http.StatusServiceUnavailable, "Service is unable to handle request."}
	slowDown           = &code{"SlowDown", http.StatusServiceUnavailable, "Please reduce your request rate."}
)

// byKind is the one table from kinds of error to codes. What depends on more than the
// kind a handler says itself.
var byKind = map[object.Kind]*code{
	object.Internal:    internalError,
	object.NotFound:    noSuchKey,
	object.Exists:      preconditionFailed,
	object.Stale:       preconditionFailed,
	object.Denied:      accessDenied,
	object.Invalid:     invalidArgument,
	object.Busy:        slowDown,
	object.Corrupt:     internalError,
	object.Unavailable: serviceUnavailable,
	object.Canceled:    requestTimeout,
}

// s3Error is an error as a client is told it.
type s3Error struct {
	*code
	text    string // in place of the code's own
	bucket  string
	marker  *object.MarkerError // the object is a mark of its deletion
	size    int64               // of the object, for a 416
	close   bool                // the connection cannot go on
	details [][2]string         // further elements of the answer
}

func (e *s3Error) Error() string { return e.name + ": " + e.message() }

func (e *s3Error) message() string {
	if e.text != "" {
		return e.text
	}
	return e.code.message
}

func fault(c *code) *s3Error { return &s3Error{code: c} }

func faultf(c *code, format string, args ...any) *s3Error {
	return &s3Error{code: c, text: fmt.Sprintf(format, args...)}
}

var (
	errSlots    = faultf(slowDown, "too many requests are going on")
	errStopping = faultf(serviceUnavailable, "the node is stopping")
)

// asS3 turns an error into what the client is told.
func (c *call) asS3(err error) *s3Error {
	var own *s3Error
	var signature *sigv4.Error
	var outside *object.RangeError
	var marker *object.MarkerError
	var body *door.BodyError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &signature):
		return &s3Error{code: &code{name: string(signature.Code), status: signature.Code.Status(), message: signature.Message}}
	case c.BodyErr != nil && errors.As(c.BodyErr, &body):
		return bodyFault(body)
	case errors.As(err, &outside):
		return &s3Error{code: invalidRange, size: outside.Size, details: [][2]string{{"ActualObjectSize", strconv.FormatInt(outside.Size, 10)}}}
	case errors.As(err, &marker):
		if c.has("versionId") {
			return &s3Error{code: methodNotAllowed, marker: marker}
		}
		return &s3Error{code: noSuchKey, marker: marker}
	case errors.Is(err, node.ErrQuota):
		return faultf(quotaExceeded, "%v", err)
	case errors.Is(err, policy.ErrMalformed):
		return faultf(malformedPolicy, "%v", err)
	}
	kind := object.KindOf(err)
	f := fault(byKind[kind])
	switch kind {
	case object.NotFound:
		if c.has("versionId") {
			f.code = noSuchVersion
		}
	case object.Invalid, object.Busy, object.Unavailable, object.Canceled:
		f.text = err.Error()
	}
	return f
}

func bodyFault(e *door.BodyError) *s3Error {
	f := &s3Error{code: incompleteBody, close: e.Close}
	switch e.Status {
	case http.StatusRequestEntityTooLarge:
		f.code = entityTooLarge
	case http.StatusRequestTimeout:
		f.code = requestTimeout
	}
	return f
}

// fail answers with an error, or cuts the connection if an answer is under way.
func (c *call) fail(err error) {
	if c.Sent {
		c.cut(err)
	}
	f := c.asS3(err)
	if kind := object.KindOf(err); f.code == internalError && (kind == object.Internal || kind == object.Corrupt) {
		c.api.logError(c, err)
	}
	h := c.Header()
	clear(h) // nothing of an answer that was being prepared
	if f.marker != nil {
		h["X-Amz-Delete-Marker"] = []string{"true"}
		h["X-Amz-Version-Id"] = []string{versionID(f.marker.Name.ID)}
		h["Last-Modified"] = []string{f.marker.Info.Modified.UTC().Format(http.TimeFormat)}
		if f.code == methodNotAllowed {
			h["Allow"] = []string{"DELETE"}
		}
	} else if f.code == noSuchKey && c.op != nil && (c.op.name == "GetObject" || c.op.name == "HeadObject") {
		h["X-Amz-Delete-Marker"] = []string{"false"} // it was not deleted but never there, or for good
	}
	if f.status == http.StatusServiceUnavailable {
		h["Retry-After"] = []string{"1"}
	}
	if f.code == invalidRange {
		h["Content-Range"] = []string{"bytes */" + strconv.FormatInt(f.size, 10)}
	}
	if f.close || c.BodyWaits() {
		h["Connection"] = []string{"close"}
	}
	c.Status = f.status
	if f.status == http.StatusNotModified || c.R.Method == http.MethodHead {
		c.stamp()
		c.SendHeader()
		return
	}
	x := newXML("Error")
	x.text("Code", f.name)
	x.text("Message", f.message())
	for _, d := range f.details {
		x.text(d[0], d[1])
	}
	if bucket := f.bucket; bucket != "" || c.bucket != "" {
		if bucket == "" {
			bucket = c.bucket
		}
		x.text("BucketName", bucket)
	}
	if c.key != "" {
		x.text("Key", c.key)
	}
	x.text("Resource", c.R.URL.Path)
	x.text("RequestId", c.requestID())
	c.send(x) //nolint:errcheck // nobody is there to be told
}

// refusal is what a connection beyond the bound is told.
const refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: application/xml\r\nContent-Length: 138\r\n\r\n" +
	`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<Error><Code>SlowDown</Code><Message>too many connections are open, come again</Message></Error>` + "\n\n\n"
