package penstock

import (
	"context"
	"net/http"
	"time"

	"penstock.dev/penstock/internal/object"
)

// User is what is known about a user. Root is not among them.
type User struct {
	Name      string    `json:"name"`
	AccessKey string    `json:"access_key"` // for S3
	Created   time.Time `json:"created"`
	Problem   string    `json:"problem,omitempty"` // why the user cannot come in, if so
}

// Keys are the key pair that a user is given for S3. The zero value has one made.
type Keys struct {
	AccessKey string `json:"access_key,omitempty"`
	SecretKey string `json:"secret_key,omitempty"`
}

// NewUser is what a user needs to come in: the keys for S3, the token for the native
// protocol. The node shows it once.
type NewUser struct {
	Name      string `json:"name"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Token     string `json:"token"`
}

// Grants are who may use a bucket.
type Grants struct {
	Owner  string            `json:"owner"`
	ACL    string            `json:"acl"`    // a canned ACL of S3
	Grants map[string]string `json:"grants"` // rights by user: read, write or admin
}

// AddUser makes a user, or answers Exists if the name or the access key is another's.
// Only root may. As soon as there is a user, the node asks everybody for a token.
func (c *Client) AddUser(ctx context.Context, name string, keys Keys) (NewUser, error) {
	var made NewUser
	if err := object.ValidateUser(name); err != nil {
		return made, err
	}
	body, header, err := jsonBody(ctx, keys)
	if err != nil {
		return made, err
	}
	// A second attempt would find the user the first one made, and not his secrets.
	_, _, err = c.do(ctx, call{
		method: http.MethodPut, url: c.path("/v1/users/"+name, nil), what: "user " + name, body: body, header: header, out: &made, once: true,
	})
	return made, err
}

// Users returns all users but root, in the order of their names. Only root may.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	var answer struct {
		Users []User `json:"users"`
	}
	_, _, err := c.do(ctx, call{method: http.MethodGet, url: c.path("/v1/users", nil), what: "users", out: &answer})
	return answer.Users, err
}

// RemoveUser removes a user and what was granted to him. It answers Exists if he owns
// buckets. Only root may.
func (c *Client) RemoveUser(ctx context.Context, name string) error {
	if err := object.ValidateUser(name); err != nil {
		return err
	}
	resp, attempts, err := c.do(ctx, call{method: http.MethodDelete, url: c.path("/v1/users/"+name, nil), what: "user " + name})
	switch {
	case err == nil:
		return resp.Body.Close()
	case attempts > 1 && Is(err, NotFound):
		return nil
	}
	return err
}

// NewToken gives a user a new token and returns it; the old one is no longer valid.
// Only root may.
func (c *Client) NewToken(ctx context.Context, name string) (string, error) {
	var answer struct {
		Token string `json:"token"`
	}
	if err := object.ValidateUser(name); err != nil {
		return "", err
	}
	_, _, err := c.do(ctx, call{method: http.MethodPost, url: c.path("/v1/users/"+name+"/token", nil), what: "user " + name, out: &answer})
	return answer.Token, err
}

// Grants returns who may use a bucket. It needs the right admin.
func (c *Client) Grants(ctx context.Context, bucket string) (Grants, error) {
	var answer Grants
	if err := object.ValidateBucket(bucket); err != nil {
		return answer, err
	}
	_, _, err := c.do(ctx, call{method: http.MethodGet, url: c.path("/v1/buckets/"+bucket+"/grants", nil), what: "bucket " + bucket, out: &answer})
	return answer, err
}

// Grant gives users rights on a bucket: read, write or admin, each of which includes
// those before it; nil takes a right away. Users that are not named keep theirs. It
// needs the right admin.
func (c *Client) Grant(ctx context.Context, bucket string, rights map[string]*string) (Grants, error) {
	var answer Grants
	if err := object.ValidateBucket(bucket); err != nil {
		return answer, err
	}
	body, header, err := jsonBody(ctx, rights)
	if err != nil {
		return answer, err
	}
	_, _, err = c.do(ctx, call{
		method: http.MethodPatch, url: c.path("/v1/buckets/"+bucket+"/grants", nil), what: "bucket " + bucket, body: body, header: header, out: &answer,
	})
	return answer, err
}
