package sigv4

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // version 2 is defined by it
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// What there is of signature version 2: presigned queries, which boto3, the aws CLI and
// all that is built on them still make for the first region, and forms. It signs less of
// a request than version 4 does. What it leaves out of the query is therefore a closed
// list here, and every other parameter is refused.

// The parameters of a signature of version 2.
const (
	oAccessKey = iota
	oSignature
	oExpires
	oldParameters
)

var oldParameterNames = [oldParameters]string{"AWSAccessKeyId", "Signature", "Expires"}

// signedParameters are those that make a request be about something else, or change its
// answer: they are part of what is signed.
var signedParameters = names(
	"accelerate", "acl", "analytics", "cors", "defaultObjectAcl", "delete", "encryption", "inventory", "legal-hold", "lifecycle",
	"location", "logging", "metrics", "notification", "object-lock", "partNumber", "policy", "policyStatus", "publicAccessBlock",
	"replication", "requestPayment", "response-cache-control", "response-content-disposition", "response-content-encoding",
	"response-content-language", "response-content-type", "response-expires", "restore", "retention", "select", "select-type",
	"storageClass", "tagging", "torrent", "uploadId", "uploads", "versionId", "versioning", "versions", "website",
)

// freeParameters are those that are not signed, though they may be there: they say which
// part of a listing is wanted, or nothing.
var freeParameters = names(
	"continuation-token", "delimiter", "encoding-type", "fetch-owner", "key-marker", "list-type", "marker", "max-keys", "max-parts",
	"max-uploads", "part-number-marker", "prefix", "start-after", "upload-id-marker", "version-id-marker", "x-id",
)

func names(all ...string) map[string]bool {
	set := make(map[string]bool, len(all))
	for _, name := range all {
		set[name] = true
	}
	return set
}

// isOld reports whether the query has a signature of version 2. Expires alone is none.
func (s *scratch) isOld() bool { return s.version2&(1<<oAccessKey|1<<oSignature) != 0 }

// recogniseOld notes a parameter of a signature of version 2.
func (s *scratch) recogniseOld(p *pair) error {
	name := s.text[p.start:p.mid]
	for i, known := range oldParameterNames {
		if !equalFold(name, known) {
			continue
		}
		c := credentials{kind: oldQuery}
		if string(name) != known {
			if i == oExpires {
				return nil
			}
			return c.malformed("%s is written otherwise", known)
		}
		if s.version2&(1<<i) != 0 {
			return c.malformed("%s is there twice", known)
		}
		s.version2 |= 1 << i
		s.old[i] = p.value
		p.isSignature = true
	}
	return nil
}

// presignedOld returns the credentials of a query signed with version 2.
func (s *scratch) presignedOld() (credentials, error) {
	c := credentials{kind: oldQuery}
	if s.version2 != 1<<oldParameters-1 {
		return c, fail(AccessDenied, "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters")
	}
	c.accessKey, _ = url.QueryUnescape(s.old[oAccessKey])
	if len(c.accessKey) > maxAccessKey {
		return c, errAccessKey
	}
	expires, _ := url.QueryUnescape(s.old[oExpires])
	var ok bool
	c.date = expires
	if c.until, ok = parseDecimal(expires); !ok {
		return c, fail(AccessDenied, "Invalid date (should be seconds since epoch): %.40q", expires)
	}
	// A plus sign that was not encoded comes out as a space.
	signature, _ := url.QueryUnescape(s.old[oSignature])
	c.signature = strings.ReplaceAll(signature, " ", "+")
	return c, nil
}

// authenticateOld checks time and signature of version 2.
func (v *Verifier) authenticateOld(s *scratch, r *http.Request, req *Request, c *credentials) error {
	if v.options.Clock().Unix() > c.until {
		return errExpired
	}
	if req.Amz("X-Amz-Security-Token") != "" {
		return errToken
	}
	secret, ok := v.options.Secret(c.accessKey)
	if !ok || secret == "" {
		return errAccessKey
	}
	signed, content, err := s.oldQuery(r)
	if err != nil {
		return err
	}
	b := append(s.buf[:0], r.Method...)
	for _, key := range [...]string{"Content-Md5", "Content-Type"} {
		b = append(b, '\n')
		b = append(b, first(r.Header, content, key)...)
	}
	b = append(b, '\n')
	b = append(b, c.date...)
	b = append(b, '\n')
	b = req.appendOldHeaders(b)
	path := r.URL.EscapedPath() // as it came: the door takes it apart in this form, too
	if bucket := v.options.Bucket(r.Host); bucket != "" {
		path = "/" + bucket + path
	}
	s.buf = append(append(b, path...), signed...)
	if !signedOld(secret, s.buf, c.signature) {
		// A bucket may be signed with a slash behind it, though none came.
		if strings.Count(path, "/") > 1 {
			return errSignature
		}
		s.buf = append(append(append(b, path...), '/'), signed...)
		if !signedOld(secret, s.buf, c.signature) {
			return errSignature
		}
	}
	for key, value := range content {
		r.Header[key] = []string{value}
	}
	return nil
}

// signedOld compares in constant time.
func signedOld(secret string, text []byte, signature string) bool {
	given, err := base64.StdEncoding.DecodeString(signature)
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write(text)
	return err == nil && hmac.Equal(given, mac.Sum(nil))
}

func first(h http.Header, content map[string]string, key string) string {
	if value, ok := content[key]; ok {
		return value
	}
	return strings.TrimSpace(h.Get(key))
}

// oldQuery returns the parameters that are signed as part of what the request is about,
// and the Content-* headers that clients put into the query.
func (s *scratch) oldQuery(r *http.Request) (resource string, content map[string]string, err error) {
	var all []string
	for i := range s.pairs {
		p := &s.pairs[i]
		if p.amz || p.isSignature {
			continue // headers, or the signature's own
		}
		name, _ := url.QueryUnescape(p.name)
		value, _ := url.QueryUnescape(p.value)
		if hasControl(name) || hasControl(value) || (signedParameters[name] && strings.ContainsAny(value, "&?")) {
			// The text that is signed has no way to tell where a value ends.
			return "", nil, fail(SignatureDoesNotMatch, "The parameter %.80q cannot be signed by version 2. Please use %s.", name, algorithm)
		}
		switch key := http.CanonicalHeaderKey(name); {
		case signedParameters[name]:
			if len(p.name) < len(p.raw) {
				name += "=" + value
			}
			all = append(all, name)
		case freeParameters[name]:
		case key == "Content-Md5" || key == "Content-Type":
			if as := r.Header[key]; content[key] != "" || len(as) > 1 || len(as) == 1 && as[0] != value {
				return "", nil, fail(InvalidRequest, "%s is there more than once", key)
			}
			if content == nil {
				content = make(map[string]string)
			}
			content[key] = value
		default:
			return "", nil, fail(SignatureDoesNotMatch, "The parameter %.80q is not part of a signature of version 2. Please use %s.", name, algorithm)
		}
	}
	if len(all) == 0 {
		return "", content, nil
	}
	slices.SortStableFunc(all, func(x, y string) int {
		x, _, _ = strings.Cut(x, "=")
		y, _, _ = strings.Cut(y, "=")
		return strings.Compare(x, y)
	})
	return "?" + strings.Join(all, "&"), content, nil
}

// appendOldHeaders appends all x-amz-* headers, those in the query, too.
func (req *Request) appendOldHeaders(b []byte) []byte {
	var lines []string
	add := func(key string, values []string) {
		line := strings.ToLower(key) + ":"
		for i, value := range values {
			if i > 0 {
				line += ","
			}
			line += strings.TrimSpace(value)
		}
		lines = append(lines, line+"\n")
	}
	for key, values := range req.header {
		if hasPrefixFold(key, "x-amz-") {
			add(key, values)
		}
	}
	for _, h := range req.hoisted {
		if req.header[h.key] == nil {
			add(h.key, []string{h.value})
		}
	}
	slices.SortFunc(lines, func(x, y string) int {
		x, _, _ = strings.Cut(x, ":")
		y, _, _ = strings.Cut(y, ":")
		return strings.Compare(x, y)
	})
	for _, line := range lines {
		b = append(b, line...)
	}
	return b
}

// verifyOldForm checks the signature of version 2 of a form's policy. It has no date:
// the policy has.
func (v *Verifier) verifyOldForm(fields map[string]string) (accessKey string, err error) {
	for _, name := range [...]string{"AWSAccessKeyId", "signature", "policy"} {
		if fields[strings.ToLower(name)] == "" {
			return "", fail(InvalidArgument, "Bucket POST must contain a field named '%s'.", name)
		}
	}
	if fields["x-amz-security-token"] != "" {
		return "", errToken
	}
	accessKey = fields["awsaccesskeyid"]
	secret, ok := v.options.Secret(accessKey)
	if !ok || secret == "" {
		return "", errAccessKey
	}
	if !signedOld(secret, []byte(fields["policy"]), fields["signature"]) {
		return "", errSignature
	}
	return accessKey, nil
}
