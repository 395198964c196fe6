package disk

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Identity says which disk a directory is. It is made once and never changes.
type Identity struct {
	ID      string    `json:"id"`
	Secret  string    `json:"secret"` // hexadecimal; keys the checks in the disk's packs
	Created time.Time `json:"created"`
}

const (
	identityFile   = "identity"
	identityCopy   = "identity.copy"
	identityFormat = 1
)

// Key returns the secret's bytes.
func (id Identity) Key() ([]byte, error) {
	key, err := hex.DecodeString(id.Secret)
	if err != nil || len(key) < 16 {
		return nil, object.Errorf(object.Corrupt, "identity has no usable secret")
	}
	return key, nil
}

// NewIdentity makes an identity and stores it, twice, so that damage to one copy
// does not cost the disk.
func NewIdentity(fsys FS, now time.Time) (Identity, error) {
	id := Identity{ID: randomHex(8), Secret: randomHex(32), Created: now.UTC()}
	return id, id.write(fsys)
}

func (id Identity) write(fsys FS) error {
	content, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if err := WriteSealed(fsys, identityCopy, "identity", identityFormat, content); err != nil {
		return err
	}
	return WriteSealed(fsys, identityFile, "identity", identityFormat, content)
}

// ReadIdentity returns the directory's identity, NotFound if it has none. A
// damaged or missing copy is repaired from the other.
func ReadIdentity(fsys FS) (Identity, error) {
	first, err1 := readIdentity(fsys, identityFile)
	second, err2 := readIdentity(fsys, identityCopy)
	switch {
	case object.Is(err1, object.Invalid):
		return first, err1
	case object.Is(err2, object.Invalid):
		return first, err2
	case err1 == nil && err2 == nil:
		if first != second {
			return first, object.Errorf(object.Corrupt, "the two copies of the identity differ")
		}
		return first, nil
	case err1 == nil:
		return first, first.write(fsys)
	case err2 == nil:
		return second, second.write(fsys)
	case object.Is(err2, object.NotFound):
		return first, err1
	case object.Is(err1, object.NotFound):
		return first, err2
	}
	return first, err1
}

func readIdentity(fsys FS, name string) (id Identity, err error) {
	content, err := ReadSealed(fsys, name, "identity", identityFormat)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(content, &id); err != nil || id.ID == "" {
		return id, object.Errorf(object.Corrupt, "%s is malformed", name)
	}
	return id, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // never fails
	return hex.EncodeToString(b)
}
