package sigv4

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// algorithm is the only one there is here. AWS4-ECDSA-P256-SHA256, of multi-region
// access points, is not.
const algorithm = "AWS4-HMAC-SHA256"

// Bounds on what a stranger may have us look at.
const (
	maxAuthorization = 16 << 10
	maxAccessKey     = 128
	maxExpires       = 7 * 24 * time.Hour
)

// way is how a request is authenticated.
type way uint8

const (
	anonymous way = iota
	header
	query
	oldQuery // signed with version 2
	form
)

// credentials are what a request says about its signature: nothing is verified yet.
type credentials struct {
	kind          way
	accessKey     string
	scope         string // day/region/s3/aws4_request
	day           string
	region        string
	date          string // of the signature; with header set by timely
	expires       time.Duration
	signedHeaders string
	signature     string // 64 hexadecimal digits; of version 2, base64
	until         int64  // of version 2: seconds since 1970
}

// credentials finds out how r is authenticated. Two ways at once are refused: what
// is checked by one must not be taken for checked by the other.
func (s *scratch) credentials(r *http.Request) (credentials, error) {
	given := r.Header["Authorization"]
	switch {
	case len(given) > 1, len(given) == 1 && (s.present != 0 || s.isOld()), s.present != 0 && s.isOld():
		return credentials{}, errTwoWays
	case s.isOld():
		return s.presignedOld()
	case len(given) == 1:
		return parseAuthorization(given[0])
	case s.present != 0:
		return s.presigned()
	}
	return credentials{}, nil
}

// parseAuthorization parses the value of an Authorization header.
func parseAuthorization(text string) (credentials, error) {
	c := credentials{kind: header}
	scheme, rest, _ := strings.Cut(text, " ")
	switch {
	case len(text) > maxAuthorization:
		return c, c.malformed("it is too long")
	case scheme == "AWS":
		return c, errMechanism
	case strings.HasPrefix(scheme, "AWS4-ECDSA-"):
		return c, fail(NotImplemented, "Signatures of version 4A are not supported. Please use %s.", algorithm)
	case scheme != algorithm:
		return c, fail(InvalidArgument, "Unsupported Authorization Type")
	}
	var credential string
	for rest != "" {
		var field string
		field, rest, _ = strings.Cut(rest, ",")
		name, value, _ := strings.Cut(strings.Trim(field, " \t"), "=")
		var to *string
		switch name {
		case "Credential":
			to = &credential
		case "SignedHeaders":
			to = &c.signedHeaders
		case "Signature":
			to = &c.signature
		default:
			return c, c.malformed("only Credential, SignedHeaders and Signature are expected")
		}
		if *to != "" {
			return c, c.malformed("%s is there twice", name)
		}
		if *to = value; value == "" {
			return c, c.malformed("%s is empty", name)
		}
	}
	return c, c.complete(credential)
}

// presigned returns the credentials of the query.
func (s *scratch) presigned() (credentials, error) {
	c := credentials{kind: query}
	if s.present != 1<<parameters-1 {
		return c, c.malformed("Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.")
	}
	var value [parameters]string
	for i := range value {
		value[i], _ = url.QueryUnescape(s.parameter[i])
	}
	if err := checkAlgorithm(&c, value[pAlgorithm]); err != nil {
		return c, err
	}
	seconds, ok := parseDecimal(value[pExpires])
	if !ok || seconds < 1 {
		return c, fail(AccessDenied, "X-Amz-Expires must be a number of seconds from 1 on")
	}
	if seconds > int64(maxExpires/time.Second) {
		return c, fail(AccessDenied, "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds")
	}
	c.expires = time.Duration(seconds) * time.Second
	c.date, c.signedHeaders, c.signature = value[pDate], value[pSignedHeaders], value[pSignature]
	return c, c.complete(value[pCredential])
}

func checkAlgorithm(c *credentials, name string) error {
	switch {
	case name == algorithm:
		return nil
	case strings.HasPrefix(name, "AWS4-ECDSA-"):
		return fail(NotImplemented, "Signatures of version 4A are not supported. Please use %s.", algorithm)
	}
	return c.malformed("X-Amz-Algorithm only supports \"%s\"", algorithm)
}

// complete takes the credential apart from the right, as a key may have slashes, and
// checks the form of everything.
func (c *credentials) complete(credential string) error {
	rest, ok := strings.CutSuffix(credential, "/s3/aws4_request")
	region := strings.LastIndexByte(rest, '/')
	day := -1
	if region >= 0 {
		day = strings.LastIndexByte(rest[:region], '/')
	}
	if !ok || day < 1 {
		return c.malformed("the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/s3/aws4_request\"")
	}
	c.accessKey, c.day, c.region = rest[:day], rest[day+1:region], rest[region+1:]
	c.scope = credential[day+1:]
	switch {
	case len(c.accessKey) > maxAccessKey:
		return errAccessKey
	case len(c.day) != 8 || strings.Trim(c.day, "0123456789") != "":
		return c.malformed("incorrect date format in the Credential; it must be in the format \"yyyyMMdd\"")
	case !isName(c.region) || len(c.region) > 64:
		return c.malformed("the region is not one")
	case !isSignature(c.signature):
		return c.malformed("the Signature must be 64 hexadecimal digits in lower case")
	case c.kind != form && c.signedHeaders == "":
		return c.malformed("SignedHeaders are missing")
	}
	return nil
}

// malformed is the error of this way to authenticate for what cannot be read.
func (c *credentials) malformed(format string, args ...any) error {
	switch c.kind {
	case header:
		return fail(AuthorizationHeaderMalformed, "The authorization header is malformed; "+format, args...)
	case query, oldQuery:
		return fail(AuthorizationQueryParametersError, "Error parsing the query parameters of the signature; "+format, args...)
	}
	return fail(InvalidArgument, "Error parsing the signature of the form; "+format, args...)
}

func isSignature(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}

func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !unreserved[c] {
			return false
		}
	}
	return s != ""
}

// parseDecimal parses a number without a sign.
func parseDecimal(s string) (int64, bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}
