package httpapi

import (
	"context"
	"net/http"
	"time"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/object"
)

type usersJSON struct {
	Users []userJSON `json:"users"`
}

type userJSON struct {
	Name      string    `json:"name"`
	AccessKey string    `json:"access_key"`
	Created   time.Time `json:"created"`
	Problem   string    `json:"problem,omitempty"`
}

// keysJSON is the key pair a new user is given, if it is not to be made.
type keysJSON struct {
	AccessKey string `json:"access_key,omitempty"`
	SecretKey string `json:"secret_key,omitempty"`
}

// newUserJSON is shown once.
type newUserJSON struct {
	Name      string `json:"name"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Token     string `json:"token"`
}

type tokenJSON struct {
	Name  string `json:"name"`
	Token string `json:"token"`
}

func (a *API) listUsers(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	answer := usersJSON{Users: []userJSON{}}
	for _, u := range a.authority.Users() {
		answer.Users = append(answer.Users, userJSON(u))
	}
	return x.respond(http.StatusOK, answer)
}

func (a *API) addUser(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	body, err := x.ReadSmall(x.Body(), maxSmallBody)
	if err != nil {
		return err
	}
	var keys keysJSON
	if len(body) > 0 && decodeStrictly(body, &keys) != nil { // what is wrong stays unsaid: it would quote a secret
		return object.Errorf(object.Invalid, "a user is described by one JSON object, with access_key and secret_key or neither")
	}
	made, err := a.authority.AddUser(x.R.Context(), x.userName, auth.Credentials{AccessKey: keys.AccessKey, SecretKey: auth.Secret(keys.SecretKey)})
	if err != nil {
		return err
	}
	a.log.Info("a user was added", "user", x.userName)
	x.Header()["Cache-Control"] = noStore
	return x.respond(http.StatusCreated, newUserJSON{
		Name: x.userName, AccessKey: made.AccessKey, SecretKey: made.SecretKey.Reveal(), Token: made.Token.Reveal(),
	})
}

func (a *API) removeUser(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	err := a.authority.RemoveUser(x.R.Context(), x.userName, func(ctx context.Context) error { return a.node.Forget(ctx, x.userName) })
	if err != nil {
		return err
	}
	a.log.Info("a user was removed", "user", x.userName)
	x.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) newToken(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	token, err := a.authority.NewToken(x.R.Context(), x.userName)
	if err != nil {
		return err
	}
	a.log.Info("a user has a new token", "user", x.userName)
	x.Header()["Cache-Control"] = noStore
	return x.respond(http.StatusOK, tokenJSON{Name: x.userName, Token: token.Reveal()})
}

var noStore = []string{"no-store"}
