package object

import "strings"

// Access is who may use a bucket, as it is kept with the bucket: plain facts,
// whose meaning only package auth knows. The zero value is root's alone.
type Access struct {
	Owner  string            `json:"owner,omitempty"`  // a user's name; empty for root
	Grants map[string]string `json:"grants,omitempty"` // by user's name: read, write or admin
	ACL    string            `json:"acl,omitempty"`    // a canned ACL of S3; empty for private
	Policy string            `json:"policy,omitempty"` // the bucket policy, as it was written
	Block  PublicBlock       `json:"block,omitzero"`   // what of the above is void where it opens the bucket to all
}

// PublicBlock is what a bucket's owner has ruled out beforehand: S3's public
// access block.
type PublicBlock struct {
	Set          bool `json:"set,omitempty"` // it is there, whatever it says
	RefuseACLs   bool `json:"refuse_acls,omitempty"`
	IgnoreACLs   bool `json:"ignore_acls,omitempty"`
	RefusePolicy bool `json:"refuse_policy,omitempty"`
	IgnorePolicy bool `json:"ignore_policy,omitempty"`
}

// The bounds of a bucket's Access: it is part of a control record.
const (
	MaxPolicy = 20 << 10 // bytes
	MaxGrants = 1000
)

// Validate reports as Invalid what does not fit into a bucket's record.
func (a Access) Validate() error {
	if len(a.Policy) > MaxPolicy {
		return Errorf(Invalid, "a policy of %d bytes is longer than %d", len(a.Policy), MaxPolicy)
	}
	if len(a.Grants) > MaxGrants {
		return Errorf(Invalid, "%d grants on one bucket are more than %d", len(a.Grants), MaxGrants)
	}
	return nil
}

// RootUser is the name of the user who is always there and may do everything.
const RootUser = "root"

// ValidateUser reports as Invalid what cannot be the name of a user beside root: it is
// 1 to 64 letters, digits, dots, dashes and underscores, and begins with a letter or
// digit.
func ValidateUser(name string) error {
	if name == RootUser {
		return Errorf(Invalid, "root is always there, and cannot be changed like other users")
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, NotInUser) || strings.IndexByte("._-", name[0]) >= 0 {
		return Errorf(Invalid, "%.80q cannot be the name of a user: 1 to 64 letters, digits, dots, dashes and underscores, the first one a letter or digit", name)
	}
	return nil
}

// NotInUser reports whether a character cannot be in the name of a user.
func NotInUser(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}
