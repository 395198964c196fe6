package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// Where users are in the control records. The record of an access key holds the name
// of its user, so that no two have the same.
const (
	userPrefix = "auth/users/"
	keyPrefix  = "auth/keys/"
)

// Account is what may be told of a user.
type Account struct {
	Name      string
	AccessKey string
	Created   time.Time

	// Problem says why the user cannot come in, if so.
	Problem string
}

// directory is all users but root at one revision. It is never changed.
type directory struct {
	revision int64
	accounts []Account // by name
	byName   map[string]entry
	byToken  map[[sha256.Size]byte]string
	byKey    map[string]key
}

type entry struct {
	account Account
	record  cluster.Record
}

type key struct {
	name   string
	secret Secret
}

// userRecord is a user in the control records; the name is the key. The secret is
// there in plain because SigV4 needs it; of the token a hash is enough.
type userRecord struct {
	AccessKey string    `json:"access_key"`
	SecretKey string    `json:"secret_key"`
	Token     string    `json:"token_sha256"`
	Created   time.Time `json:"created"`
	Leaving   bool      `json:"leaving,omitempty"` // is being removed: nobody comes in by it
}

// decodeUser refuses fields it does not know: a newer version meant something by them.
// What is wrong stays unsaid, for the message would quote secrets.
func decodeUser(r cluster.Record) (u userRecord, token [sha256.Size]byte, err error) {
	d := json.NewDecoder(bytes.NewReader(r.Value))
	d.DisallowUnknownFields()
	err = d.Decode(&u)
	sum, notHex := hex.DecodeString(u.Token)
	if err != nil || notHex != nil || len(sum) != len(token) || u.AccessKey == "" || u.SecretKey == "" {
		return userRecord{}, token, object.Errorf(object.Unavailable, "the record of user %s cannot be used by this version", strings.TrimPrefix(r.Key, userPrefix))
	}
	copy(token[:], sum)
	return u, token, nil
}

// Run keeps the users fresh until the context ends, and returns nil then.
func (a *Authority) Run(ctx context.Context) error {
	for view, err := range cluster.Follow(ctx, a.control, userPrefix) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		a.apply(view)
	}
	return nil
}

// refresh reads the users from the control records.
func (a *Authority) refresh(ctx context.Context) error {
	view, err := a.control.List(ctx, userPrefix)
	if err != nil {
		return err
	}
	a.apply(view)
	return nil
}

// settle lets the caller of a change see it before it is told. The change is made
// already, so the caller's leaving must not leave the directory behind.
func (a *Authority) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return a.refresh(ctx)
}

const settleTime = 10 * time.Second

// apply makes a view the current one, unless a newer one is.
func (a *Authority) apply(view cluster.View) {
	a.applying.Lock()
	defer a.applying.Unlock()
	old := a.users.Load()
	if view.Revision <= old.revision && old.byName != nil {
		return
	}
	d := &directory{
		revision: view.Revision, byName: make(map[string]entry, len(view.Records)),
		byToken: make(map[[sha256.Size]byte]string), byKey: make(map[string]key),
	}
	for _, r := range view.Records {
		d.add(r)
	}
	a.users.Store(d)
}

// add takes one record in. One that cannot be used still is a user: a door that is
// open while there is none must not open because of it.
func (d *directory) add(r cluster.Record) {
	account := Account{Name: strings.TrimPrefix(r.Key, userPrefix)}
	u, token, err := decodeUser(r)
	switch {
	case err != nil:
		account.Problem = err.Error()
	case u.Leaving:
		account.Problem = "is being removed; remove it again"
	default:
		d.byToken[token] = account.Name
		d.byKey[u.AccessKey] = key{account.Name, Secret(u.SecretKey)}
	}
	account.AccessKey, account.Created = u.AccessKey, u.Created
	d.accounts = append(d.accounts, account)
	d.byName[account.Name] = entry{account, r}
}
