package s3api

import (
	"encoding/base64"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/node"
)

func serviceOperations() []*operation {
	return []*operation{
		// Everybody may ask, and is told of what he sees: without credentials, nothing.
		{name: "ListBuckets", scope: ofService, method: http.MethodGet, handle: (*API).listBuckets},
	}
}

const maxBuckets = 10000 // in one answer

// listBuckets answers with the buckets that the caller owns or was given rights to.
func (a *API) listBuckets(c *call) error {
	limit := maxBuckets
	if text, ok := c.param("max-buckets"); ok {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxBuckets {
			return faultf(invalidArgument, "max-buckets must be an integer between 1 and %d", maxBuckets)
		}
	}
	prefix, _ := c.param("prefix")
	region, _ := c.param("bucket-region")
	var after string
	if token, _ := c.param("continuation-token"); token != "" {
		var ok bool
		if after, ok = parseToken(token, ""); !ok {
			return errToken()
		}
	}
	x := newXML("ListAllMyBucketsResult")
	x.person("Owner", c.user.Name)
	x.begin("Buckets")
	shown, last, more := 0, "", false
	for _, b := range a.node.Buckets() {
		if b.Name <= after || !a.inList(c, &b, prefix, region) {
			continue
		}
		if shown == limit {
			more = true
			break
		}
		shown++
		last = b.Name
		x.begin("Bucket")
		x.text("Name", b.Name)
		x.time("CreationDate", b.Created)
		x.text("BucketRegion", a.region)
		x.end()
	}
	x.end()
	x.optional("Prefix", prefix)
	if more {
		x.text("ContinuationToken", newToken(last, ""))
	}
	return c.send(x)
}

func (a *API) inList(c *call, b *node.Bucket, prefix, region string) bool {
	return strings.HasPrefix(b.Name, prefix) && (region == "" || region == a.region) && auth.Sees(c.user, b.Access)
}

// person writes an element about a user: names are unique, so they are the IDs, too.
func (x *xmlWriter) person(element, name string) {
	if name == "" {
		name = anonymousID
	}
	x.begin(element)
	x.text("ID", name)
	x.text("DisplayName", name)
	x.end()
}

// anonymousID is what S3 calls who has no credentials.
const anonymousID = "65a011a29cdf8ec533ec3d1ccaae921c"

// newToken makes the token by which a client asks for what comes after mark. Clients
// are not to build on what is in it, so a checksum keeps out what they make up. It
// belongs to one listing: of, say, a bucket.
func newToken(mark, of string) string {
	b := make([]byte, 4, 4+len(mark))
	sum := tokenSum(mark, of)
	b[0], b[1], b[2], b[3] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
	return base64.RawURLEncoding.EncodeToString(append(b, mark...))
}

// parseToken is the inverse of newToken.
func parseToken(token, of string) (mark string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < 5 {
		return "", false
	}
	mark = string(b[4:])
	sum := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	return mark, sum == tokenSum(mark, of)
}

func tokenSum(mark, of string) uint32 {
	return crc32.ChecksumIEEE([]byte("token\x00" + of + "\x00" + mark))
}

func errToken() error { return faultf(invalidArgument, "The continuation token provided is incorrect") }
