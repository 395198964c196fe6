package auth

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/policy"
)

// Request is what a caller wants to do.
type Request struct {
	policy.Request // User is set by Allowed

	// Object tells the canned ACL of the object, if it has one, and the user who wrote
	// it, if that is known. It is asked only if nothing else allows the request; if it
	// fails, so does Allowed. Nil means that there is nothing to tell.
	Object func() (acl, owner string, err error)
}

// Allowed returns nil if a user may do what a request says with a bucket, or else
// Denied. Doors ask it for every bucket and object they are about to touch.
//
// Root may do everything. To others a Deny in the bucket's policy goes first, and
// binds the owner, too, except for the policy itself. Then it is enough if one of
// these allows it: the policy, being the owner, a grant, the bucket's canned ACL, the
// object's. Without credentials nothing can be done that needs an admin's right. The
// bucket's public access block may take the ACLs out of that, and a policy that allows
// something to everybody, with all else it allows.
func (a *Authority) Allowed(user User, access object.Access, r Request) error {
	if user.Root {
		return nil
	}
	need := rights[r.Action]
	owner := !user.Anonymous() && access.Owner == user.Name
	switch {
	case need == unknown, user.Anonymous() && (need == admin || need == asUser):
		return denied(user, &r)
	case need == asUser:
		return nil
	}
	if access.Policy != "" {
		r.User = user.Name
		effect, public := a.policies.evaluate(access.Policy, &r.Request)
		switch {
		case effect == policy.Deny:
			if owner && slices.Contains(unlocking, r.Action) {
				return nil
			}
			return denied(user, &r)
		case effect == policy.Allow && !(public && access.Block.IgnorePolicy):
			return nil
		}
	}
	if owner || (!user.Anonymous() && grants[access.Grants[user.Name]] >= need) ||
		(!access.Block.IgnoreACLs && bucketACLs[access.ACL].allows(user, r.Action)) {
		return nil
	}
	if r.Key != "" && r.Object != nil {
		allowed, err := r.allowedByObject(user, access.Block.IgnoreACLs)
		if allowed || err != nil {
			return err
		}
	}
	return denied(user, &r)
}

func (g given) allows(user User, action string) bool {
	return slices.Contains(g.toAll, action) || (!user.Anonymous() && slices.Contains(g.toUsers, action))
}

func (r *Request) allowedByObject(user User, ignoreACL bool) (bool, error) {
	acl, owner, err := r.Object()
	if err != nil {
		return false, err
	}
	if !user.Anonymous() && owner == user.Name && slices.Contains(owning, r.Action) {
		return true, nil
	}
	return !ignoreACL && objectACLs[acl].allows(user, r.Action), nil
}

// Forbidden returns Denied if a bucket's policy forbids a user what a request says,
// whatever else allows it. It is for what comes along with something that is allowed.
func (a *Authority) Forbidden(user User, access object.Access, r Request) error {
	if user.Root || access.Policy == "" {
		return nil
	}
	r.User = user.Name
	if effect, _ := a.policies.evaluate(access.Policy, &r.Request); effect == policy.Deny {
		return denied(user, &r)
	}
	return nil
}

func denied(user User, r *Request) error {
	who, what := user.Name, "bucket "+r.Bucket
	if user.Anonymous() {
		who = "without credentials one"
	}
	if r.Key != "" {
		what = r.Bucket + "/" + r.Key
	}
	if r.Bucket == "" {
		return object.Errorf(object.Denied, "%s may not do this (%s)", who, r.Action)
	}
	return object.Errorf(object.Denied, "%s may not do this with %s (%s)", who, what, r.Action)
}

// Sees reports whether a bucket is in a user's list: his own, and those granted to him.
func Sees(user User, access object.Access) bool {
	return user.Root || (!user.Anonymous() && (access.Owner == user.Name || access.Grants[user.Name] != ""))
}

// Owner returns the name of a bucket's owner.
func Owner(access object.Access) string {
	if access.Owner == "" {
		return object.RootUser
	}
	return access.Owner
}

// OwnedBy returns the access of a bucket that a user makes.
func OwnedBy(user User) object.Access {
	if user.Root {
		return object.Access{}
	}
	return object.Access{Owner: user.Name}
}

// Grant returns a bucket's access with a user's right set: Read, Write or Admin, or
// empty for none. The user must be known, except to take a right away.
func (a *Authority) Grant(access object.Access, name, right string) (object.Access, error) {
	switch {
	case right != "" && grants[right] == unknown:
		return access, object.Errorf(object.Invalid, "%.40q is no right; there are %s, %s and %s, and none", right, Read, Write, Admin)
	case right != "" && name == object.RootUser:
		return access, object.Errorf(object.Invalid, "root may do everything already")
	case right != "" && !a.Known(name):
		return access, NoUser(name)
	}
	access.Grants = maps.Clone(access.Grants)
	if right == "" {
		delete(access.Grants, name)
		return access, nil
	}
	if access.Grants == nil {
		access.Grants = make(map[string]string)
	}
	access.Grants[name] = right
	return access, nil
}

// SetACL returns a bucket's access with a canned ACL, or Invalid if there is no such. It
// is Denied if the bucket's public access block refuses it.
func SetACL(access object.Access, acl string) (object.Access, error) {
	if acl == Private {
		acl = ""
	}
	if _, known := bucketACLs[acl]; !known && acl != "" {
		return access, object.Errorf(object.Invalid, "%.40q is no canned ACL of a bucket", acl)
	}
	if err := MayHaveACL(access, acl); err != nil {
		return access, err
	}
	access.ACL = acl
	return access, nil
}

// MayHaveACL returns Denied if a bucket's public access block keeps it, and the objects
// in it, from having a canned ACL.
func MayHaveACL(access object.Access, acl string) error {
	if _, public := bucketACLs[acl]; public && access.Block.RefuseACLs {
		return object.Errorf(object.Denied, "the bucket's public access block does not allow the ACL %s", acl)
	}
	return nil
}

// SetPolicy returns a bucket's access with a policy, or with none if the text is
// empty. It is Invalid if it is malformed (policy.ErrMalformed) or names a user who is
// not there: somebody who comes later by that name is not who was meant. It is Denied if
// the bucket's public access block refuses it.
func (a *Authority) SetPolicy(bucket string, access object.Access, text string) (object.Access, error) {
	if text != "" {
		p, err := policy.Parse(bucket, []byte(text))
		if err != nil {
			return access, err
		}
		if access.Block.RefusePolicy && p.IsPublic() {
			return access, object.Errorf(object.Denied, "the bucket's public access block does not allow a policy that opens it to everybody")
		}
		for _, name := range p.Users() {
			if !a.Known(name) {
				return access, object.Errorf(object.Invalid, "%w: there is no user %s", policy.ErrMalformed, name)
			}
		}
	}
	access.Policy = text
	return access, nil
}

// policies remembers what was parsed, by bucket.
type policies struct {
	parsed sync.Map // from string to *parsedPolicy
	count  atomic.Int64
}

type parsedPolicy struct {
	text   string
	policy *policy.Policy // nil if it cannot be read
	public bool
}

// maxParsed bounds what is remembered; beyond it all is forgotten, and read again.
const maxParsed = 4096

// evaluate asks a policy, and whether it is open to everybody. One that cannot be read,
// which a newer version may have written, denies.
func (p *policies) evaluate(text string, r *policy.Request) (effect policy.Effect, public bool) {
	found, ok := p.parsed.Load(r.Bucket)
	known, _ := found.(*parsedPolicy)
	if !ok || known.text != text {
		known = &parsedPolicy{text: text}
		if parsed, err := policy.Parse(r.Bucket, []byte(text)); err == nil {
			known.policy, known.public = parsed, parsed.IsPublic()
		}
		if p.count.Add(1) > maxParsed {
			p.parsed.Clear()
			p.count.Store(1)
		}
		p.parsed.Store(r.Bucket, known)
	}
	if known.policy == nil {
		return policy.Deny, false
	}
	return known.policy.Evaluate(r), known.public
}
