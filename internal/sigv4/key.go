package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"strings"
	"sync"
)

// maxKeys is how many signing keys are remembered. At the bound any one goes: to
// derive it again costs four HMACs.
const maxKeys = 1024

// keyName is everything a signing key is derived from. With the secret in it a
// changed secret is another key at once.
type keyName struct{ accessKey, secret, day, region string }

// keys remembers signing keys that have verified something. The zero value is ready.
type keys struct {
	mu sync.RWMutex
	m  map[keyName]*signer
}

func (k *keys) get(name keyName) (*signer, bool) {
	k.mu.RLock()
	s, ok := k.m[name]
	k.mu.RUnlock()
	return s, ok
}

func (k *keys) add(name keyName, s *signer) {
	// The strings are pieces of a request, which would stay in memory with them.
	name = keyName{strings.Clone(name.accessKey), strings.Clone(name.secret), strings.Clone(name.day), strings.Clone(name.region)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = make(map[keyName]*signer)
	}
	for old := range k.m {
		if len(k.m) < maxKeys {
			break
		}
		delete(k.m, old)
	}
	k.m[name] = s
}

// signer signs with one signing key.
type signer struct {
	key  []byte
	macs sync.Pool // of hash.Hash: a used HMAC has its key's two blocks hashed already
}

func newSigner(name keyName) *signer {
	key := []byte("AWS4" + name.secret)
	for _, text := range [...]string{name.day, name.region, "s3", "aws4_request"} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		key = mac.Sum(nil)
	}
	return &signer{key: key}
}

// sign puts the signature of text into s.signature.
func (g *signer) sign(s *scratch, text []byte) {
	mac, ok := g.macs.Get().(hash.Hash)
	if !ok {
		mac = hmac.New(sha256.New, g.key)
	}
	mac.Reset()
	mac.Write(text)
	mac.Sum(s.sum[:0])
	g.macs.Put(mac)
	appendHex(s.signature[:0], s.sum[:])
}
