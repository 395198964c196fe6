package auth_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
)

func nothing(context.Context) error { return nil }

func wantKind(t *testing.T, what string, err error, kind object.Kind) {
	t.Helper()
	if !object.Is(err, kind) {
		t.Errorf("%s: %v, want %v", what, err, kind)
	}
}

func TestUserLife(t *testing.T) {
	control, ctx := nodetest.Control(t), t.Context()
	a, _ := mustOpen(t, control, auth.Options{})
	alice, err := a.AddUser(ctx, "alice", auth.Credentials{})
	if err != nil || alice.AccessKey == "" || len(alice.SecretKey) < 32 || len(alice.Token) < 32 {
		t.Fatalf("added: %v", err)
	}
	if a.RootOnly() {
		t.Error("root is said to be alone")
	}
	if user, err := a.Check(alice.Token.Reveal()); err != nil || user != (auth.User{Name: "alice"}) {
		t.Errorf("her token is %+v's, %v", user, err)
	}
	if user, secret, ok := a.Key(alice.AccessKey); !ok || user.Name != "alice" || secret != alice.SecretKey {
		t.Errorf("her key is %+v's", user)
	}
	key, secret := a.Keys()
	if user, s, ok := a.Key(key); !ok || user != auth.Root() || s != secret {
		t.Errorf("root's key is %+v's", user)
	}
	if _, _, ok := a.Key("nobody's"); ok {
		t.Error("a key is found that nobody has")
	}
	_, err = a.AddUser(ctx, "alice", auth.Credentials{})
	wantKind(t, "the same name", err, object.Exists)
	for _, taken := range []string{alice.AccessKey, key} {
		_, err = a.AddUser(ctx, "bob", auth.Credentials{AccessKey: taken, SecretKey: "a-secret"})
		wantKind(t, "a key that is taken", err, object.Exists)
	}
	token, err := a.NewToken(ctx, "alice")
	if err != nil {
		t.Fatal(err)
	}
	check(t, a, alice.Token.Reveal(), false)
	if user, err := a.Check(token.Reveal()); err != nil || user.Name != "alice" {
		t.Errorf("her new token is %+v's, %v", user, err)
	}
	// The next start knows her, and no file has her token.
	again, _ := mustOpen(t, control, auth.Options{})
	if all := again.Users(); len(all) != 1 || all[0].Name != "alice" || all[0].AccessKey != alice.AccessKey || all[0].Created.IsZero() {
		t.Errorf("the users are %+v", all)
	}
	view, err := control.List(ctx, "auth/users/")
	if err != nil || len(view.Records) != 1 || bytes.Contains(view.Records[0].Value, []byte(token.Reveal())) {
		t.Errorf("the records are %v, %v", view.Records, err)
	}
	refusal := object.Errorf(object.Exists, "she owns something")
	during := func(context.Context) error {
		check(t, a, token.Reveal(), false) // already she does not come in
		return refusal
	}
	wantKind(t, "removing an owner", a.RemoveUser(ctx, "alice", during), object.Exists)
	if _, err := a.Check(token.Reveal()); err != nil {
		t.Errorf("she was let out: %v", err)
	}
	if err := a.RemoveUser(ctx, "alice", nothing); err != nil {
		t.Fatal(err)
	}
	check(t, a, token.Reveal(), false)
	if _, _, ok := a.Key(alice.AccessKey); ok || !a.RootOnly() || a.Known("alice") {
		t.Error("she is still there")
	}
	wantKind(t, "removing her twice", a.RemoveUser(ctx, "alice", nothing), object.NotFound)
	_, err = a.NewToken(ctx, "alice")
	wantKind(t, "a token for nobody", err, object.NotFound)
	if _, err := a.AddUser(ctx, "bob", auth.Credentials{AccessKey: alice.AccessKey, SecretKey: alice.SecretKey}); err != nil {
		t.Errorf("her key is not free: %v", err)
	}
}

func TestBadUsers(t *testing.T) {
	a, _ := mustOpen(t, nodetest.Control(t), auth.Options{})
	for _, name := range []string{"", "root", ".", "..", "-x", "a b", "a/b", "ä", "a\n", strings.Repeat("a", 65)} {
		_, err := a.AddUser(t.Context(), name, auth.Credentials{})
		wantKind(t, name, err, object.Invalid)
		_, err = a.NewToken(t.Context(), name)
		wantKind(t, name, err, object.Invalid)
		wantKind(t, name, a.RemoveUser(t.Context(), name, nothing), object.Invalid)
	}
	for _, given := range []auth.Credentials{
		{AccessKey: "abc"},
		{SecretKey: "long-enough"},
		{AccessKey: "a/b", SecretKey: "long-enough"},
		{AccessKey: "a,b", SecretKey: "long-enough"},
		{AccessKey: "abc", SecretKey: "short"},
		{Token: "a-token-of-mine"},
	} {
		_, err := a.AddUser(t.Context(), "alice", given)
		wantKind(t, given.AccessKey, err, object.Invalid)
	}
	if !a.RootOnly() {
		t.Error("somebody was added")
	}
}

// TestUsersAreFollowed: what one node does the others see.
func TestUsersAreFollowed(t *testing.T) {
	control := nodetest.Control(t)
	one, _ := mustOpen(t, control, auth.Options{})
	two, _ := mustOpen(t, control, auth.Options{})
	nodetest.Run(t, two.Run)
	made, err := one.AddUser(t.Context(), "alice", auth.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { _, err := two.Check(made.Token.Reveal()); return err == nil })
	if err := one.RemoveUser(t.Context(), "alice", nothing); err != nil {
		t.Fatal(err)
	}
	await(t, two.RootOnly)
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(10 * time.Second); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not happen")
		}
	}
}

// TestOneKeyOneUser: of many who want the same access key one gets it.
func TestOneKeyOneUser(t *testing.T) {
	control := nodetest.Control(t)
	var wg sync.WaitGroup
	results := make([]error, 10)
	for i := range results {
		a, _ := mustOpen(t, control, auth.Options{})
		wg.Go(func() {
			_, results[i] = a.AddUser(t.Context(), "user"+string(rune('a'+i)), auth.Credentials{AccessKey: "wanted", SecretKey: "long-enough"})
		})
	}
	wg.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
		} else {
			wantKind(t, "a loser", err, object.Exists)
		}
	}
	if a, _ := mustOpen(t, control, auth.Options{}); won != 1 || len(a.Users()) != 1 {
		t.Errorf("%d have the key", won)
	}
}

// TestStanding: what is given to a user is not given to one who is leaving or gone.
func TestStanding(t *testing.T) {
	control, ctx := nodetest.Control(t), t.Context()
	a, _ := mustOpen(t, control, auth.Options{})
	holds := func(name string) bool {
		_, err := control.Txn(ctx, cluster.Txn{If: a.Standing(name), Then: []cluster.Op{cluster.Put("x", nil)}})
		if err != nil && !object.Is(err, object.Stale) {
			t.Error(err)
		}
		return err == nil
	}
	if !holds("root") || holds("alice") {
		t.Error("root does not stand, or nobody does")
	}
	if _, err := a.AddUser(ctx, "alice", auth.Credentials{}); err != nil {
		t.Fatal(err)
	}
	before := a.Standing("alice")
	if !holds("alice") {
		t.Error("she does not stand")
	}
	err := a.RemoveUser(ctx, "alice", func(context.Context) error {
		if holds("alice") {
			t.Error("she stands while she leaves")
		}
		if _, err := control.Txn(ctx, cluster.Txn{If: before, Then: []cluster.Op{cluster.Put("x", nil)}}); !object.Is(err, object.Stale) {
			t.Errorf("what was asked before still holds: %v", err)
		}
		return nil
	})
	if err != nil || holds("alice") {
		t.Errorf("she stands when she is gone; %v", err)
	}
}

// TestUnreadableUser: a record that cannot be used lets nobody in, and does not make
// root the only user.
func TestUnreadableUser(t *testing.T) {
	for _, value := range []string{"", "{", `{"access_key":"sesame","secret_key":"sesame-key","token_sha256":"00"}`, `{"access_key":"a","secret_key":"sesame","token_sha256":"` + strings.Repeat("0", 64) + `","newer":1}`} {
		control := nodetest.Control(t)
		if _, err := control.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.Put("auth/users/alice", []byte(value))}}); err != nil {
			t.Fatal(err)
		}
		a, _ := mustOpen(t, control, auth.Options{})
		all := a.Users()
		if a.RootOnly() || len(all) != 1 || all[0].Problem == "" || strings.Contains(all[0].Problem, "sesame") {
			t.Errorf("%q: %+v", value, all)
		}
		if _, _, ok := a.Key("sesame"); ok {
			t.Errorf("%q lets somebody in", value)
		}
		_, err := a.NewToken(t.Context(), "alice")
		wantKind(t, "a new token", err, object.Unavailable)
	}
}
