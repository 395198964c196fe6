package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"hash"
)

// What the string to sign of a chunk begins with.
const (
	payloadSignature = "AWS4-HMAC-SHA256-PAYLOAD"
	trailerSignature = "AWS4-HMAC-SHA256-TRAILER"
)

// chain is the signatures of a body, each of which signs the one before it, from that
// of the request on.
type chain struct {
	mac      hash.Hash
	date     string
	scope    string
	previous [2 * sha256.Size]byte
	given    [2 * sha256.Size]byte
	sum      [sha256.Size]byte
	buf      []byte
}

func (g *signer) chain(date, scope, seed string) *chain {
	c := &chain{mac: hmac.New(sha256.New, g.key), date: date, scope: scope}
	copy(c.previous[:], seed)
	return c
}

// expect sets the signature that what comes next must have.
func (c *chain) expect(signature []byte) bool {
	return copy(c.given[:], signature) == len(c.given) && len(signature) == len(c.given)
}

// verify reports whether what was hashed has the signature that is expected.
func (c *chain) verify(kind string, content hash.Hash) bool {
	b := append(c.buf[:0], kind...)
	b = append(b, '\n')
	b = append(b, c.date...)
	b = append(b, '\n')
	b = append(b, c.scope...)
	b = append(b, '\n')
	b = append(b, c.previous[:]...)
	b = append(b, '\n')
	if kind == payloadSignature {
		b = append(b, emptyDigest...)
		b = append(b, '\n')
	}
	c.buf = appendHex(b, content.Sum(c.sum[:0]))
	c.mac.Reset()
	c.mac.Write(c.buf)
	appendHex(c.previous[:0], c.mac.Sum(c.sum[:0]))
	return subtle.ConstantTimeCompare(c.previous[:], c.given[:]) == 1
}
