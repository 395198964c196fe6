package httpapi

import (
	"net/http"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

// grantsJSON is who may use a bucket.
type grantsJSON struct {
	Owner  string            `json:"owner"`
	ACL    string            `json:"acl"`
	Grants map[string]string `json:"grants"`
}

func newGrantsJSON(b node.Bucket) grantsJSON {
	g := grantsJSON{Owner: auth.Owner(b.Access), ACL: b.Access.ACL, Grants: b.Access.Grants}
	if g.ACL == "" {
		g.ACL = auth.Private
	}
	if g.Grants == nil {
		g.Grants = map[string]string{}
	}
	return g
}

func (a *API) getGrants(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	b, err := a.node.Bucket(x.name.Bucket)
	if err != nil {
		return err
	}
	return x.respond(http.StatusOK, newGrantsJSON(b))
}

// patchGrants sets the rights of the users that the body names; all or none.
func (a *API) patchGrants(x *exchange) error {
	body, err := x.properties()
	if err != nil {
		return err
	}
	var changes map[string]*string
	if err := decodeStrictly(body, &changes); err != nil || changes == nil {
		return object.Errorf(object.Invalid, "grants are one JSON object, from users to read, write, admin or null")
	}
	if len(changes) > maxGrantChanges {
		return object.Errorf(object.Invalid, "more than %d grants at once", maxGrantChanges)
	}
	var gain []string
	for name, right := range changes {
		if right != nil {
			gain = append(gain, name)
		}
	}
	b, err := a.node.SetAccess(x.R.Context(), x.name.Bucket, func(access object.Access) (object.Access, error) {
		var err error
		for name, right := range changes {
			if right == nil {
				right = new(string)
			}
			if access, err = a.authority.Grant(access, name, *right); err != nil {
				return access, err
			}
		}
		return access, nil
	}, a.authority.Standing(gain...)...)
	if err != nil {
		return err
	}
	return x.respond(http.StatusOK, newGrantsJSON(b))
}

// maxGrantChanges leaves room in a transaction.
const maxGrantChanges = 100

func (a *API) getPolicy(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	b, err := a.node.Bucket(x.name.Bucket)
	if err != nil {
		return err
	}
	if b.Access.Policy == "" {
		return object.Errorf(object.NotFound, "bucket %s has no policy", b.Name)
	}
	return x.writeDocument([]byte(b.Access.Policy))
}

func (a *API) putPolicy(x *exchange) error {
	body, err := x.properties()
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return object.Errorf(object.Invalid, "a policy is wanted")
	}
	return a.setPolicy(x, string(body))
}

func (a *API) deletePolicy(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	return a.setPolicy(x, "")
}

func (a *API) setPolicy(x *exchange, text string) error {
	_, err := a.node.SetAccess(x.R.Context(), x.name.Bucket, func(access object.Access) (object.Access, error) {
		return a.authority.SetPolicy(x.name.Bucket, access, text)
	})
	if err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// policyJSON describes a policy for the OpenAPI document; package policy reads it.
type policyJSON struct {
	Version   string          `json:"Version,omitempty"`
	ID        string          `json:"Id,omitempty"`
	Statement []statementJSON `json:"Statement"`
}

type statementJSON struct {
	Sid       string                         `json:"Sid,omitempty"`
	Effect    string                         `json:"Effect"`
	Principal map[string][]string            `json:"Principal"`
	Action    []string                       `json:"Action"`
	Resource  []string                       `json:"Resource"`
	Condition map[string]map[string][]string `json:"Condition,omitempty"`
}
