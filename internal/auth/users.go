package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// maxUsers bounds the control records that users take up.
const maxUsers = 10_000

// Users returns all users but root, in the order of their names.
func (a *Authority) Users() []Account { return slices.Clone(a.users.Load().accounts) }

// Known reports whether there is a user of that name. Root is one.
func (a *Authority) Known(name string) bool {
	_, ok := a.users.Load().byName[name]
	return ok || name == object.RootUser
}

// Standing returns conditions for a transaction that must not happen once one of the
// users is changed or removed: one that gives them something. Nothing happens to root.
func (a *Authority) Standing(names ...string) []cluster.Condition {
	var all []cluster.Condition
	users := a.users.Load()
	for _, name := range names {
		e, ok := users.byName[name]
		switch {
		case name == object.RootUser:
		case ok && e.account.Problem == "":
			all = append(all, cluster.IfUnchanged(e.record))
		default:
			all = append(all, cluster.IfValue(userPrefix+name, nil)) // no record is empty: this never holds
		}
	}
	return all
}

// AddUser makes a user, or answers Exists if the name or the access key is another's.
// The key pair is made if none is given; a token is made always. What it returns is to
// be shown, once.
func (a *Authority) AddUser(ctx context.Context, name string, given Credentials) (Credentials, error) {
	if err := object.ValidateUser(name); err != nil {
		return Credentials{}, err
	}
	if given.Token != "" {
		return Credentials{}, object.Errorf(object.Invalid, "a user's token is made, not given")
	}
	if err := given.Validate(); err != nil {
		return Credentials{}, err
	}
	if given.AccessKey != "" && strings.ContainsFunc(given.AccessKey, object.NotInUser) {
		return Credentials{}, object.Errorf(object.Invalid, "the access key may hold only letters, digits, dots, dashes and underscores")
	}
	made, err := a.make(given)
	if err != nil {
		return Credentials{}, err
	}
	if len(a.users.Load().accounts) >= maxUsers {
		return Credentials{}, object.Errorf(object.Denied, "there are %d users already", maxUsers)
	}
	value, err := encodeUser(userRecord{AccessKey: made.AccessKey, SecretKey: made.SecretKey.Reveal(), Token: hashToken(made.Token), Created: a.clock().UTC().Round(0)})
	if err != nil {
		return Credentials{}, err
	}
	user, owner := userPrefix+name, keyPrefix+made.AccessKey
	if made.AccessKey == a.root.AccessKey {
		return Credentials{}, keyTaken(made.AccessKey)
	}
	_, err = a.control.Txn(ctx, cluster.Txn{
		If:   []cluster.Condition{cluster.IfAbsent(user), cluster.IfAbsent(owner)},
		Then: []cluster.Op{cluster.Put(user, value), cluster.Put(owner, []byte(name))},
	})
	if object.Is(err, object.Stale) {
		if _, err := a.control.Get(ctx, user); object.Is(err, object.NotFound) {
			return Credentials{}, keyTaken(made.AccessKey)
		}
		return Credentials{}, object.Errorf(object.Exists, "user %s exists already", name)
	}
	if err != nil {
		return Credentials{}, err
	}
	return made, a.settle(ctx)
}

func keyTaken(accessKey string) error {
	return object.Errorf(object.Exists, "access key %s belongs to another user", accessKey)
}

// make returns the credentials of a new user: what is given, and what is not.
func (a *Authority) make(given Credentials) (Credentials, error) {
	var b [10 + 32 + 32]byte
	if _, err := io.ReadFull(a.random, b[:]); err != nil {
		return given, err
	}
	if given.AccessKey == "" {
		given.AccessKey, given.SecretKey = hex.EncodeToString(b[:10]), Secret(hex.EncodeToString(b[10:42]))
	}
	given.Token = Secret(hex.EncodeToString(b[42:]))
	return given, nil
}

func hashToken(token Secret) string {
	sum := sha256.Sum256([]byte(token.Reveal()))
	return hex.EncodeToString(sum[:])
}

func encodeUser(u userRecord) ([]byte, error) { return json.Marshal(u) }

// NewToken replaces a user's token and returns the new one, to be shown once.
func (a *Authority) NewToken(ctx context.Context, name string) (Secret, error) {
	r, u, err := a.read(ctx, name)
	if err != nil {
		return "", err
	}
	if u.Leaving {
		return "", object.Errorf(object.NotFound, "user %s is being removed", name)
	}
	made, err := a.make(Credentials{})
	if err != nil {
		return "", err
	}
	u.Token = hashToken(made.Token)
	if _, err := a.put(ctx, r, u); err != nil {
		return "", err
	}
	return made.Token, a.settle(ctx)
}

// RemoveUser removes a user, or answers NotFound. From its beginning on nobody comes
// in by the user's token and keys, on this node at once; forget then takes away what
// others keep of him. If that fails the user stays as he was: its error is returned.
func (a *Authority) RemoveUser(ctx context.Context, name string, forget func(context.Context) error) error {
	r, u, err := a.read(ctx, name)
	if err != nil {
		return err
	}
	leaving := u
	leaving.Leaving = true
	if r, err = a.put(ctx, r, leaving); err != nil {
		return err
	}
	if err := a.settle(ctx); err != nil {
		return err
	}
	if cause := forget(ctx); cause != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		u.Leaving = false
		if _, err := a.put(ctx, r, u); err != nil {
			return object.Errorf(object.Unavailable, "user %s was neither removed (%w) nor let in again (%v): remove it again", name, cause, err)
		}
		if err := a.settle(ctx); err != nil {
			return err
		}
		return cause
	}
	_, err = a.control.Txn(ctx, cluster.Txn{
		If:   []cluster.Condition{cluster.IfUnchanged(r)},
		Then: []cluster.Op{cluster.Delete(r.Key), cluster.Delete(keyPrefix + u.AccessKey)},
	})
	if err != nil {
		return overtaken(name, err)
	}
	return a.settle(ctx)
}

// read returns a user's record as the cluster has it now.
func (a *Authority) read(ctx context.Context, name string) (cluster.Record, userRecord, error) {
	if err := object.ValidateUser(name); err != nil {
		return cluster.Record{}, userRecord{}, err
	}
	r, err := a.control.Get(ctx, userPrefix+name)
	if object.Is(err, object.NotFound) {
		return r, userRecord{}, NoUser(name)
	}
	if err != nil {
		return r, userRecord{}, err
	}
	u, _, err := decodeUser(r)
	return r, u, err
}

// NoUser is the error for a user that is not there.
func NoUser(name string) error {
	return object.Errorf(object.NotFound, "user %.80s does not exist", name)
}

// put replaces a user's record if it is still the one that was read, and returns the
// new one.
func (a *Authority) put(ctx context.Context, r cluster.Record, u userRecord) (cluster.Record, error) {
	value, err := encodeUser(u)
	if err != nil {
		return r, err
	}
	revision, err := a.control.Txn(ctx, cluster.Txn{If: []cluster.Condition{cluster.IfUnchanged(r)}, Then: []cluster.Op{cluster.Put(r.Key, value)}})
	if err != nil {
		return r, overtaken(strings.TrimPrefix(r.Key, userPrefix), err)
	}
	r.Modified, r.Value = revision, value
	return r, nil
}

func overtaken(name string, err error) error {
	if object.Is(err, object.Stale) {
		return object.Errorf(object.Busy, "user %s was changed elsewhere at the same time; repeat it", name)
	}
	return err
}
