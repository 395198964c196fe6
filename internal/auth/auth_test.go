package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustOpen(t *testing.T, control cluster.Control, o auth.Options) (*auth.Authority, auth.Credentials) {
	t.Helper()
	a, fresh, err := auth.Open(t.Context(), control, o)
	if err != nil {
		t.Fatal(err)
	}
	return a, fresh
}

func check(t *testing.T, a *auth.Authority, token string, good bool) {
	t.Helper()
	user, err := a.Check(token)
	if good && (err != nil || user != auth.Root()) {
		t.Errorf("the right token: %+v, %v", user, err)
	}
	if !good && (!object.Is(err, object.Denied) || user != (auth.User{})) {
		t.Errorf("token %q: %+v, %v", token, user, err)
	}
}

func TestMadeOnce(t *testing.T) {
	control := nodetest.Control(t)
	a, fresh := mustOpen(t, control, auth.Options{})
	if len(fresh.Token) < 32 || len(fresh.SecretKey) < 32 || fresh.AccessKey == "" {
		t.Errorf("made: access key of %d, secret of %d, token of %d characters", len(fresh.AccessKey), len(fresh.SecretKey), len(fresh.Token))
	}
	token := fresh.Token.Reveal()
	check(t, a, token, true)
	for _, wrong := range []string{"", "x", token + "x", token[1:], strings.ToUpper(token), fresh.SecretKey.Reveal(), "[secret]"} {
		check(t, a, wrong, false)
	}
	again, none := mustOpen(t, control, auth.Options{})
	if none != (auth.Credentials{}) {
		t.Error("they are shown twice")
	}
	check(t, again, token, true)
	key, secret := again.Keys()
	if key != fresh.AccessKey || secret != fresh.SecretKey {
		t.Error("another key pair came back")
	}
	if !again.RootOnly() {
		t.Error("there is somebody beside root")
	}
	_, other := mustOpen(t, nodetest.Control(t), auth.Options{})
	if other.Token == fresh.Token || other.SecretKey == fresh.SecretKey || other.AccessKey == fresh.AccessKey {
		t.Error("two nodes made the same credentials")
	}
}

func TestGivenGoesFirst(t *testing.T) {
	control := nodetest.Control(t)
	given := auth.Credentials{AccessKey: "access", SecretKey: "secret-key", Token: "given-token"}
	a, fresh := mustOpen(t, control, auth.Options{Given: given, MustExist: true})
	if fresh != (auth.Credentials{}) {
		t.Errorf("something is to be shown though all was given: %v", fresh.AccessKey)
	}
	check(t, a, "given-token", true)
	if key, secret := a.Keys(); key != "access" || secret != "secret-key" {
		t.Errorf("the key pair is %s", key)
	}
	a, _ = mustOpen(t, control, auth.Options{}) // what was given is not kept
	check(t, a, "given-token", false)

	_, fresh = mustOpen(t, nodetest.Control(t), auth.Options{Given: auth.Credentials{Token: "given-token"}})
	if fresh.Token != "" || fresh.AccessKey == "" || fresh.SecretKey == "" {
		t.Error("with a token given, the key pair and only it is to be shown")
	}
}

func TestMustExist(t *testing.T) {
	control := nodetest.Control(t)
	_, _, err := auth.Open(t.Context(), control, auth.Options{MustExist: true})
	if !object.Is(err, object.Denied) {
		t.Errorf("without any: %v", err)
	}
	if _, err := control.Get(t.Context(), "auth/root"); !object.Is(err, object.NotFound) {
		t.Errorf("the refusal left something: %v", err)
	}
	mustOpen(t, control, auth.Options{})
	mustOpen(t, control, auth.Options{MustExist: true})
}

func TestValidate(t *testing.T) {
	for _, c := range []auth.Credentials{
		{AccessKey: "access"},
		{SecretKey: "secret-key"},
		{AccessKey: "a", SecretKey: "secret-key"},
		{AccessKey: "access", SecretKey: "short"},
		{Token: "short"},
		{Token: "with space"},
		{Token: "with\nnewline"},
		{Token: "ümläute-here"},
		{Token: auth.Secret(strings.Repeat("x", 257))},
		{AccessKey: strings.Repeat("x", 129), SecretKey: "secret-key"},
	} {
		if err := c.Validate(); !object.Is(err, object.Invalid) {
			t.Errorf("%+v: %v", c, err)
		} else if s := c.Token.Reveal(); s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("the error shows the token: %v", err)
		}
	}
}

func TestDamagedRecord(t *testing.T) {
	for _, value := range []string{"", "{", `{"secret_key":"sesame","token":"t"}`} {
		control := nodetest.Control(t)
		if _, err := control.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.Put("auth/root", []byte(value))}}); err != nil {
			t.Fatal(err)
		}
		_, _, err := auth.Open(t.Context(), control, auth.Options{})
		if !object.Is(err, object.Corrupt) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// rival is a Control on which somebody else is always a little faster.
type rival struct{ cluster.Control }

func (r rival) Txn(ctx context.Context, txn cluster.Txn) (int64, error) {
	first := cluster.Txn{Then: []cluster.Op{cluster.Put("auth/root", []byte(`{"access_key":"theirs","secret_key":"their-secret","token":"their-token"}`))}}
	if _, err := r.Control.Txn(ctx, first); err != nil {
		return 0, err
	}
	return r.Control.Txn(ctx, txn)
}

func TestRivalsAgree(t *testing.T) {
	a, fresh := mustOpen(t, rival{nodetest.Control(t)}, auth.Options{})
	if fresh != (auth.Credentials{}) {
		t.Error("credentials that are not in force are to be shown")
	}
	check(t, a, "their-token", true)
}

func TestRandomnessFails(t *testing.T) {
	_, _, err := auth.Open(t.Context(), nodetest.Control(t), auth.Options{Rand: bytes.NewReader(make([]byte, 10))})
	if err == nil {
		t.Error("credentials were made without enough randomness")
	}
}

// TestSecretsDoNotShow prints a secret in every way there is.
func TestSecretsDoNotShow(t *testing.T) {
	c := auth.Credentials{AccessKey: "access", SecretKey: "sesame-key", Token: "sesame-token"}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v"} {
		fmt.Fprintf(&out, verb+"\n", c.Token, c.Token)
		fmt.Fprintf(&out, verb+"\n", c, &c)
	}
	fmt.Fprintln(&out, c, &c, []auth.Secret{c.Token}, map[string]auth.Secret{"a": c.SecretKey}, errors.New(c.Token.String()))
	slog.New(slog.NewTextHandler(&out, nil)).Info("started", "root", c, "token", c.Token)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("started", "root", c, "token", c.Token)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	for _, secret := range []string{"sesame", fmt.Sprintf("%x", "sesame"), fmt.Sprintf("%X", "sesame"), "[115 101"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("a secret shows: %s", out.String())
		}
	}
	if c.Token.Reveal() != "sesame-token" {
		t.Error("Reveal does not")
	}
}
