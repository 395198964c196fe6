// Package policy is the language of bucket policies: AWS's JSON, read strictly, and
// the answer to the question what a policy says about one request.
//
// Parse takes a document for one bucket apart and refuses whatever it does not
// understand: a policy must never look as if it forbade something that nothing
// forbids. Evaluate asks all statements; a Deny wins over any Allow, and if none
// applies the policy says nothing. The package knows no users, buckets or doors; a
// door tells it the facts of a request, and package auth decides what to make of the
// answer.
//
// A Policy is not changed after it was parsed, so it may be used concurrently.
package policy

import (
	"errors"
	"slices"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Effect is what a policy says about a request.
type Effect uint8

// The effects.
const (
	None Effect = iota // nothing: others decide
	Allow
	Deny
)

// ErrMalformed is in the chain of every error of Parse.
var ErrMalformed = errors.New("the policy is malformed")

// Request is a request as policies see it.
type Request struct {
	User   string    // the caller's name; empty for one without credentials
	Action string    // one of Actions
	Bucket string    // the policy's bucket
	Key    string    // of the object; empty for the bucket itself
	Time   time.Time // when it came

	// Context tells the values of a condition key (Keys lists them), which is given in
	// the letters of the list, and whether the request has it at all. The keys that
	// follow from the fields above are not asked for. Nil means there are none.
	Context func(key string) ([]string, bool)

	// Blind are condition keys that the door cannot tell, or beginnings of them that
	// end in a slash. A condition on one holds in a Deny and fails in an Allow.
	Blind []string
}

// Policy is a bucket policy.
type Policy struct{ statements []statement }

// statement is one rule. All its parts must match.
type statement struct {
	deny       bool
	principals principals
	actions    patterns
	resources  patterns
	conditions []condition
}

// Evaluate returns what the policy says about a request.
func (p *Policy) Evaluate(r *Request) Effect {
	effect := None
	for i := range p.statements {
		s := &p.statements[i]
		if effect == Allow && !s.deny {
			continue
		}
		if !s.matches(r) {
			continue
		}
		if s.deny {
			return Deny
		}
		effect = Allow
	}
	return effect
}

func (s *statement) matches(r *Request) bool {
	if !s.principals.match(r.User) || !s.actions.match(strings.ToLower(r.Action), r.User) {
		return false
	}
	resource := resourcePrefix + r.Bucket
	if r.Key != "" {
		resource += "/" + r.Key
	}
	if !s.resources.match(resource, r.User) {
		return false
	}
	for i := range s.conditions {
		c := &s.conditions[i]
		holds, known := c.holds(r)
		if !known {
			holds = s.deny
		}
		if !holds {
			return false
		}
	}
	return true
}

func (r *Request) blind(key string) bool {
	for _, b := range r.Blind {
		if key == b || (strings.HasSuffix(b, "/") && strings.HasPrefix(key, b)) {
			return true
		}
	}
	return false
}

// IsPublic reports whether the policy allows something to everybody, unless a
// condition holds it to fixed addresses or users.
func (p *Policy) IsPublic() bool {
	for i := range p.statements {
		s := &p.statements[i]
		if !s.deny && s.principals.everybody() && !slices.ContainsFunc(s.conditions, condition.confines) {
			return true
		}
	}
	return false
}

// Users returns the names of all users that the policy names, sorted.
func (p *Policy) Users() []string {
	var all []string
	for i := range p.statements {
		all = append(all, p.statements[i].principals.names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// principals say whom a statement is about.
type principals struct {
	except bool // all but those
	all    bool // everybody, also without credentials
	names  []string
}

func (p *principals) match(user string) bool {
	in := p.all || (user != "" && slices.Contains(p.names, user))
	return in != p.except
}

func (p *principals) everybody() bool { return p.all != p.except }

func malformed(format string, args ...any) error {
	return object.Errorf(object.Invalid, "%w: "+format, append([]any{ErrMalformed}, args...)...)
}
