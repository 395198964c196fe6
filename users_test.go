package penstock_test

import (
	"strings"
	"testing"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/testcluster"
)

// TestUsers: root adds users, who use what is theirs, across a restart.
func TestUsers(t *testing.T) {
	ctx := t.Context()
	node := testcluster.Start(t, testcluster.Options{Binary: binary, Env: []string{"PENSTOCK_TOKEN=roots-own-token"}})
	as := func(token string) *penstock.Client {
		t.Helper()
		c, err := penstock.New(penstock.Options{Endpoint: node.Endpoint, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	root := as("roots-own-token")
	alice, err := root.AddUser(ctx, "alice", penstock.Keys{})
	if err != nil || alice.Name != "alice" || alice.Token == "" || alice.SecretKey == "" {
		t.Fatalf("%+v, %v", alice.Name, err)
	}
	bob, err := root.AddUser(ctx, "bob", penstock.Keys{AccessKey: "bobs-key", SecretKey: "bobs-secret"})
	if err != nil || bob.AccessKey != "bobs-key" || bob.SecretKey != "bobs-secret" {
		t.Fatalf("%+v, %v", bob.Name, err)
	}
	_, err = root.AddUser(ctx, "bob", penstock.Keys{})
	wantKind(t, err, penstock.Exists)
	_, err = root.AddUser(ctx, "../bob", penstock.Keys{})
	wantKind(t, err, penstock.Invalid)
	_, err = as("").Buckets(ctx)
	wantKind(t, err, penstock.Denied)

	hers, his := as(alice.Token), as(bob.Token)
	made, err := hers.CreateBucket(ctx, "photos", penstock.BucketOptions{})
	if err != nil || made.Owner != "alice" {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := hers.Put(ctx, name, strings.NewReader("meow"), penstock.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = his.Get(ctx, name)
	wantKind(t, err, penstock.Denied)
	right := "read"
	grants, err := hers.Grant(ctx, "photos", map[string]*string{"bob": &right})
	if err != nil || grants.Owner != "alice" || grants.Grants["bob"] != "read" {
		t.Fatalf("%+v, %v", grants, err)
	}
	if err := node.Restart(); err != nil {
		t.Fatal(err)
	}
	if data, err := his.Get(ctx, name); err != nil || string(data) != "meow" {
		t.Errorf("%q, %v", data, err)
	}
	_, err = his.Put(ctx, name, strings.NewReader("woof"), penstock.PutOptions{})
	wantKind(t, err, penstock.Denied)
	_, err = his.Grants(ctx, "photos")
	wantKind(t, err, penstock.Denied)
	_, err = his.Users(ctx)
	wantKind(t, err, penstock.Denied)

	token, err := root.NewToken(ctx, "bob")
	if err != nil {
		t.Fatal(err)
	}
	_, err = his.Buckets(ctx)
	wantKind(t, err, penstock.Denied)
	if all, err := as(token).Buckets(ctx); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	wantKind(t, root.RemoveUser(ctx, "alice"), penstock.Exists)
	if err := root.RemoveUser(ctx, "bob"); err != nil {
		t.Error(err)
	}
	wantKind(t, root.RemoveUser(ctx, "bob"), penstock.NotFound)
	users, err := root.Users(ctx)
	if err != nil || len(users) != 1 || users[0].Name != "alice" || users[0].AccessKey != alice.AccessKey {
		t.Errorf("%+v, %v", users, err)
	}
	if grants, err := hers.Grants(ctx, "photos"); err != nil || len(grants.Grants) != 0 {
		t.Errorf("%+v, %v", grants, err)
	}
}
