// Package auth says who a caller is and what he may do. Doors ask it; nothing below
// them does.
//
// Root has an S3 key pair and a token for the native door. They are given, or made at
// the first start and kept as a control record, which lies in files of mode 0600.
// Other users are control records, too: a name, a key pair and the hash of a token.
// Run follows the records and keeps a snapshot of them, so that each node sees the
// changes of all, and Check and Key ask nobody.
//
// What a bucket's owner, grants, canned ACL and policy let a user do is decided in one
// place for all doors, Allowed, in the words of S3: see rights.go for the table from
// actions to rights.
//
// All methods of Authority may be called concurrently.
package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// Credentials are the root user's.
type Credentials struct {
	AccessKey string
	SecretKey Secret
	Token     Secret
}

// Validate reports as Invalid what cannot be used. Nothing at all is fine.
func (c Credentials) Validate() error {
	if (c.AccessKey == "") != (c.SecretKey == "") {
		return object.Errorf(object.Invalid, "an access key and a secret key must be given together")
	}
	if c.AccessKey != "" && (len(c.AccessKey) < 3 || len(c.AccessKey) > 128) {
		return object.Errorf(object.Invalid, "the access key must have 3 to 128 characters")
	}
	if c.SecretKey != "" && (len(c.SecretKey) < minSecret || len(c.SecretKey) > maxSecret) {
		return object.Errorf(object.Invalid, "the secret key must have %d to %d characters", minSecret, maxSecret)
	}
	if c.Token != "" && (len(c.Token) < minSecret || len(c.Token) > maxSecret) {
		return object.Errorf(object.Invalid, "the token must have %d to %d characters", minSecret, maxSecret)
	}
	for _, s := range []string{c.AccessKey, string(c.SecretKey), string(c.Token)} {
		for i := 0; i < len(s); i++ {
			if s[i] <= ' ' || s[i] > '~' {
				return object.Errorf(object.Invalid, "keys and tokens may hold only visible ASCII characters, no spaces")
			}
		}
	}
	return nil
}

const (
	minSecret = 8
	maxSecret = 256
)

// rootKey is where root's credentials are in the control records.
const rootKey = "auth/root"

// Options configure an Authority. The zero value makes what is missing.
type Options struct {
	// Given goes before what is kept, and is not stored.
	Given Credentials
	// MustExist fails with Denied when there is neither a given nor a kept token,
	// instead of making one: for a door that is open to the network.
	MustExist bool
	Rand      io.Reader        // nil means crypto/rand
	Clock     func() time.Time // nil means time.Now
}

// Authority knows the users.
type Authority struct {
	control cluster.Control
	root    Credentials
	token   [sha256.Size]byte // of root's token
	random  io.Reader
	clock   func() time.Time

	users    atomic.Pointer[directory]
	applying sync.Mutex // orders the replacing of users; readers do not take it
	policies policies
}

// Open finds or makes the root user's credentials, and reads the other users. fresh
// are those credentials that were made just now and that somebody should be shown,
// once; their other fields are empty. Changes made through other nodes are seen while
// Run runs.
func Open(ctx context.Context, control cluster.Control, o Options) (a *Authority, fresh Credentials, err error) {
	if err := o.Given.Validate(); err != nil {
		return nil, fresh, err
	}
	if o.MustExist && o.Given.Token == "" {
		if err := RequireToken(ctx, control); err != nil {
			return nil, fresh, err
		}
	}
	for {
		kept, record, err := load(ctx, control)
		if err != nil {
			return nil, Credentials{}, err
		}
		root := kept.or(o.Given)
		if root.complete() {
			a := &Authority{control: control, root: root, token: sha256.Sum256([]byte(root.Token)), random: o.Rand, clock: o.Clock}
			if a.random == nil {
				a.random = rand.Reader
			}
			if a.clock == nil {
				a.clock = time.Now
			}
			a.users.Store(&directory{})
			return a, fresh, a.refresh(ctx)
		}
		// Only what is neither given nor kept is made: a secret that nobody was shown
		// helps nobody.
		if fresh, err = add(ctx, control, record, kept, root, o.Rand); err != nil && !object.Is(err, object.Stale) {
			return nil, Credentials{}, err
		}
	}
}

// RequireToken answers Denied if no token is kept.
func RequireToken(ctx context.Context, control cluster.Control) error {
	kept, _, err := load(ctx, control)
	if err == nil && kept.Token == "" {
		err = object.Errorf(object.Denied, "listening beyond loopback without credentials is refused: set PENSTOCK_TOKEN, or start once on loopback to have a token made")
	}
	return err
}

func (c Credentials) complete() bool { return c.AccessKey != "" && c.SecretKey != "" && c.Token != "" }

// or returns the credentials with those that are given in their place.
func (c Credentials) or(given Credentials) Credentials {
	if given.AccessKey != "" {
		c.AccessKey, c.SecretKey = given.AccessKey, given.SecretKey
	}
	if given.Token != "" {
		c.Token = given.Token
	}
	return c
}

// rootRecord is what is kept, with the secrets in plain: SigV4 needs the key
// itself, and the operator may look the token up.
type rootRecord struct {
	AccessKey string `json:"access_key,omitempty"`
	SecretKey string `json:"secret_key,omitempty"`
	Token     string `json:"token,omitempty"`
}

// load returns what is kept, nothing if there is no record yet.
func load(ctx context.Context, control cluster.Control) (Credentials, cluster.Record, error) {
	r, err := control.Get(ctx, rootKey)
	if object.Is(err, object.NotFound) {
		return Credentials{}, cluster.Record{}, nil
	}
	if err != nil {
		return Credentials{}, r, err
	}
	var kept rootRecord
	if json.Unmarshal(r.Value, &kept) != nil || (kept.AccessKey == "") != (kept.SecretKey == "") {
		// What is wrong with it stays unsaid: the message would quote it.
		return Credentials{}, r, object.Errorf(object.Corrupt, "the control record %s cannot be read", rootKey)
	}
	return Credentials{AccessKey: kept.AccessKey, SecretKey: Secret(kept.SecretKey), Token: Secret(kept.Token)}, r, nil
}

// add makes what have lacks, keeps it beside what is kept, and returns it. It is
// Stale if another node was faster.
func add(ctx context.Context, control cluster.Control, before cluster.Record, kept, have Credentials, random io.Reader) (made Credentials, err error) {
	if random == nil {
		random = rand.Reader
	}
	var b [10 + 32 + 32]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return made, err
	}
	if have.AccessKey == "" {
		made.AccessKey, made.SecretKey = hex.EncodeToString(b[:10]), Secret(hex.EncodeToString(b[10:42]))
	}
	if have.Token == "" {
		made.Token = Secret(hex.EncodeToString(b[42:]))
	}
	all := kept.or(made)
	value, err := json.Marshal(rootRecord{AccessKey: all.AccessKey, SecretKey: string(all.SecretKey), Token: string(all.Token)})
	if err != nil {
		return made, err
	}
	condition := cluster.IfAbsent(rootKey)
	if before.Key != "" {
		condition = cluster.IfUnchanged(before)
	}
	_, err = control.Txn(ctx, cluster.Txn{If: []cluster.Condition{condition}, Then: []cluster.Op{cluster.Put(rootKey, value)}})
	if err != nil {
		return Credentials{}, err
	}
	return made, nil
}

// User is who a caller proved to be. The zero value is somebody without credentials.
type User struct {
	Name string
	Root bool
}

// Root returns the user who may do everything.
func Root() User { return User{Name: object.RootUser, Root: true} }

// Anonymous reports whether it is somebody without credentials.
func (u User) Anonymous() bool { return u == User{} }

// Check returns the user a bearer token belongs to, or Denied. Tokens are looked up by
// their hashes, so the time it takes tells nothing about those that are right.
func (a *Authority) Check(token string) (User, error) {
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], a.token[:]) == 1 {
		return Root(), nil
	}
	if name, ok := a.users.Load().byToken[sum]; ok {
		return User{Name: name}, nil
	}
	return User{}, errToken
}

var errToken = object.Errorf(object.Denied, "the token is not valid")

// Key returns whose an access key is, and the secret that belongs to it.
func (a *Authority) Key(accessKey string) (User, Secret, bool) {
	if accessKey == a.root.AccessKey {
		return Root(), a.root.SecretKey, true
	}
	if k, ok := a.users.Load().byKey[accessKey]; ok {
		return User{Name: k.name}, k.secret, true
	}
	return User{}, "", false
}

// CheckKey returns the user a key pair belongs to, or Denied.
func (a *Authority) CheckKey(accessKey, secretKey string) (User, error) {
	user, secret, ok := a.Key(accessKey)
	have, want := sha256.Sum256([]byte(secretKey)), sha256.Sum256([]byte(secret))
	if !ok || subtle.ConstantTimeCompare(have[:], want[:]) != 1 {
		return User{}, errKeys
	}
	return user, nil
}

var errKeys = object.Errorf(object.Denied, "the key pair is not valid")

// RootOnly reports whether root is the only user: then a machine's own users may
// be served without a token.
func (a *Authority) RootOnly() bool { return len(a.users.Load().accounts) == 0 }

// Keys returns the root user's key pair, for signatures.
func (a *Authority) Keys() (accessKey string, secretKey Secret) {
	return a.root.AccessKey, a.root.SecretKey
}
