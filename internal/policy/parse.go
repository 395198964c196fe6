package policy

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
)

// The bounds of a document, beside its size.
const (
	maxStatements = 100
	maxValues     = 1000 // of one list
)

const resourcePrefix = "arn:aws:s3:::"

// Parse reads the policy of a bucket. Errors are Invalid, and ErrMalformed. The
// document must be one JSON object in AWS's words; elements that are unknown or come
// twice, unknown actions, conditions and keys of conditions, principals other than
// users, and resources that are not in the bucket are refused.
func Parse(bucket string, text []byte) (*Policy, error) {
	if len(text) > object.MaxPolicy {
		return nil, malformed("it has %d bytes, more than %d", len(text), object.MaxPolicy)
	}
	if !utf8.Valid(text) {
		return nil, malformed("it is not UTF-8")
	}
	elements, err := members(text)
	if err != nil {
		return nil, err
	}
	doc := document{bucket: bucket}
	var statements json.RawMessage
	for _, e := range elements {
		switch e.name {
		case "Version":
			var version string
			if json.Unmarshal(e.value, &version) != nil || (version != "2012-10-17" && version != "2008-10-17") {
				return nil, malformed("Version must be \"2012-10-17\" or \"2008-10-17\", not %.40s", e.value)
			}
			doc.variables = version == "2012-10-17"
		case "Id":
			if err := shortString("Id", e.value); err != nil {
				return nil, err
			}
		case "Statement":
			statements = e.value
		default:
			return nil, malformed("unknown element %.40q; a policy has Version, Id and Statement", e.name)
		}
	}
	return doc.policy(statements)
}

// document is a policy that is being read.
type document struct {
	bucket    string
	variables bool // ${...} means something
}

// policy reads one statement or a list of them.
func (d *document) policy(value json.RawMessage) (*Policy, error) {
	var list []json.RawMessage
	switch {
	case len(value) == 0:
		return nil, malformed("it has no Statement")
	case value[0] != '[':
		list = []json.RawMessage{value}
	case json.Unmarshal(value, &list) != nil || len(list) == 0 || len(list) > maxStatements:
		return nil, malformed("Statement must be a list of 1 to %d", maxStatements)
	}
	p := new(Policy)
	ids := map[string]bool{}
	for i, text := range list {
		s, id, err := d.statement(text)
		if err == nil && id != "" && ids[id] {
			err = malformed("Sid %q comes twice", id)
		}
		if err != nil {
			return nil, object.Errorf(object.Invalid, "statement %d: %w", i+1, err)
		}
		ids[id] = true
		p.statements = append(p.statements, s)
	}
	return p, nil
}

func (d *document) statement(text json.RawMessage) (s statement, id string, err error) {
	elements, err := members(text)
	if err != nil {
		return s, "", err
	}
	has := map[string]bool{}
	for _, e := range elements {
		has[e.name] = true
		switch e.name {
		case "Sid":
			if err = shortString("Sid", e.value); err == nil {
				err = json.Unmarshal(e.value, &id)
			}
		case "Effect":
			var effect string
			if json.Unmarshal(e.value, &effect) != nil || (effect != "Allow" && effect != "Deny") {
				err = malformed("Effect must be \"Allow\" or \"Deny\", not %.40s", e.value)
			}
			s.deny = effect == "Deny"
		case "Principal", "NotPrincipal":
			s.principals, err = parsePrincipals(e.name, e.value)
		case "Action", "NotAction":
			s.actions, err = d.actions(e.name, e.value)
		case "Resource", "NotResource":
			s.resources, err = d.resources(e.name, e.value)
		case "Condition":
			s.conditions, err = d.conditions(e.value)
		default:
			err = malformed("unknown element %.40q", e.name)
		}
		if err != nil {
			return s, id, err
		}
	}
	if !has["Effect"] {
		return s, id, malformed("it has no Effect")
	}
	for _, name := range []string{"Principal", "Action", "Resource"} {
		if has[name] == has["Not"+name] {
			return s, id, malformed("it must have either %s or Not%s", name, name)
		}
	}
	if !s.deny && has["NotPrincipal"] {
		return s, id, malformed("NotPrincipal goes with Deny only: it would allow something to the rest of the world")
	}
	if s.deny && has["Principal"] && slices.Contains(s.principals.names, object.RootUser) {
		return s, id, malformed("nothing can be denied to root")
	}
	return s, id, nil
}

// parsePrincipals reads "*", or an object with lists of users under AWS and
// CanonicalUser.
func parsePrincipals(element string, value json.RawMessage) (principals, error) {
	p := principals{except: element == "NotPrincipal"}
	var text string
	if json.Unmarshal(value, &text) == nil {
		if text != "*" {
			return p, malformed("%s must be \"*\" or {\"AWS\": ...}, not %.80q", element, text)
		}
		p.all = true
		return p, nil
	}
	kinds, err := members(value)
	if err != nil || len(kinds) == 0 {
		return p, malformed("%s must be \"*\" or {\"AWS\": ...}", element)
	}
	for _, kind := range kinds {
		if kind.name != "AWS" && kind.name != "CanonicalUser" {
			return p, malformed("%s: %.40q is no kind of principal here; there are AWS and CanonicalUser", element, kind.name)
		}
		names, err := stringList(element, kind.value)
		if err != nil {
			return p, err
		}
		for _, name := range names {
			if name == "*" && kind.name == "AWS" {
				p.all = true
				continue
			}
			user, ok := parseUser(name)
			if !ok {
				return p, malformed("%s: %.80q names no user; write NAME or arn:aws:iam::ACCOUNT:user/NAME", element, name)
			}
			p.names = append(p.names, user)
		}
	}
	return p, nil
}

// parseUser returns whom a principal means: a name as it is, the last part of a
// user's ARN, and root for an account.
func parseUser(principal string) (string, bool) {
	rest, isARN := strings.CutPrefix(principal, "arn:aws:iam::")
	if !isARN {
		if len(principal) == 12 && strings.Trim(principal, "0123456789") == "" {
			return object.RootUser, true // an account's number
		}
		return principal, isUser(principal)
	}
	_, who, _ := strings.Cut(rest, ":")
	if who == "root" {
		return object.RootUser, true
	}
	path, ok := strings.CutPrefix(who, "user/")
	name := path[strings.LastIndexByte(path, '/')+1:]
	return name, ok && isUser(name)
}

func isUser(name string) bool { return name == object.RootUser || object.ValidateUser(name) == nil }

func (d *document) actions(element string, value json.RawMessage) (patterns, error) {
	p := patterns{except: element == "NotAction"}
	list, err := stringList(element, value)
	if err != nil {
		return p, err
	}
	for _, text := range list {
		one, err := parsePattern(strings.ToLower(text), false, true)
		if err != nil {
			return p, err
		}
		known := func(action string) bool { return one.match(strings.ToLower(action), "") }
		if text != "*" && (!strings.Contains(text, ":") || !slices.ContainsFunc(Actions(), known)) {
			return p, malformed("%s: there is no action %.80q", element, text)
		}
		p.of = append(p.of, one)
	}
	return p, nil
}

func (d *document) resources(element string, value json.RawMessage) (patterns, error) {
	p := patterns{except: element == "NotResource"}
	list, err := stringList(element, value)
	if err != nil {
		return p, err
	}
	for _, text := range list {
		one, err := parsePattern(text, d.variables, true)
		if err != nil {
			return p, err
		}
		rest, ok := strings.CutPrefix(text, resourcePrefix)
		bucket, _, _ := strings.Cut(rest, "/")
		name, err := parsePattern(bucket, false, true)
		if err != nil {
			return p, err
		}
		if text != "*" && (!ok || !name.match(d.bucket, "")) {
			return p, malformed("%s: %.80q is not in the bucket; write %s%s or %s%s/KEY", element, text, resourcePrefix, d.bucket, resourcePrefix, d.bucket)
		}
		p.of = append(p.of, one)
	}
	return p, nil
}

// member is one name and value of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members returns those of a JSON object, and nothing else. Names that come twice are
// refused: of two Effects a reader would see the one and we the other.
func members(text []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, malformed("a JSON object is wanted, not %.40q", text)
	}
	var all []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, malformed("it is not JSON: %v", err)
		}
		m := member{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, malformed("it is not JSON: %v", err)
		}
		if slices.ContainsFunc(all, func(other member) bool { return other.name == m.name }) {
			return nil, malformed("%.40q comes twice", m.name)
		}
		all = append(all, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, malformed("it is not JSON: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, malformed("something follows the JSON object")
	}
	return all, nil
}

// stringList reads a string, or a list of some.
func stringList(element string, value json.RawMessage) ([]string, error) {
	var one string
	if json.Unmarshal(value, &one) == nil && string(value) != "null" {
		return []string{one}, nil
	}
	var list []string
	if json.Unmarshal(value, &list) != nil || len(list) == 0 || len(list) > maxValues || bytes.Contains(value, []byte("null")) && slices.Contains(list, "") {
		return nil, malformed("%s must be a string or a list of strings, not %.40s", element, value)
	}
	return list, nil
}

func shortString(element string, value json.RawMessage) error {
	var text string
	if string(value) == "null" || json.Unmarshal(value, &text) != nil || len(text) > 1024 {
		return malformed("%s must be a short string, not %.40s", element, value)
	}
	return nil
}
