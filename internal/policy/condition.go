package policy

import (
	"bytes"
	"encoding/json"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The keys of conditions that Evaluate knows by itself.
const (
	keyUserName  = "aws:username"
	keyUserID    = "aws:userid"
	keyTime      = "aws:CurrentTime"
	keyEpoch     = "aws:EpochTime"
	keyPrincipal = "aws:PrincipalType"
)

// keys are the condition keys, as they are written; case does not matter. A final
// slash stands for any ending.
var keys = []string{
	keyTime, keyEpoch, keyPrincipal, "aws:Referer", "aws:SecureTransport", "aws:SourceIp", "aws:UserAgent", keyUserID, keyUserName,
	"s3:ExistingObjectTag/", "s3:RequestObjectTag/", "s3:RequestObjectTagKeys", "s3:VersionId", "s3:authType", "s3:delimiter",
	"s3:if-match", "s3:if-none-match", "s3:max-keys", "s3:prefix", "s3:signatureversion", "s3:x-amz-acl", "s3:x-amz-content-sha256",
	"s3:x-amz-copy-source", "s3:x-amz-grant-full-control", "s3:x-amz-grant-read", "s3:x-amz-grant-read-acp", "s3:x-amz-grant-write",
	"s3:x-amz-grant-write-acp", "s3:x-amz-metadata-directive", "s3:x-amz-server-side-encryption",
	"s3:x-amz-server-side-encryption-aws-kms-key-id", "s3:x-amz-server-side-encryption-customer-algorithm", "s3:x-amz-storage-class",
}

// Keys returns the condition keys there are; those that end in a slash have any ending,
// which names a tag.
func Keys() []string { return slices.Clone(keys) }

// condition is one operator on one key.
type condition struct {
	key      string
	op       operator
	set      set
	ifExists bool
	values   []string
	tests    []test // one for each value
}

// test reports whether a value of the request fits one of the condition's.
type test func(value, user string) bool

// set says how several values of a request are taken.
type set uint8

const (
	single       set = iota
	forAnyValue      // one must fit
	forAllValues     // each must fit, of those there are
)

// operator is how values are compared.
type operator struct {
	parse  func(value string, variables bool) (test, error)
	negate bool
	null   bool
}

var operators = map[string]operator{
	"StringEquals":              {parse: equals},
	"StringNotEquals":           {parse: equals, negate: true},
	"StringEqualsIgnoreCase":    {parse: equalsFold},
	"StringNotEqualsIgnoreCase": {parse: equalsFold, negate: true},
	"StringLike":                {parse: like},
	"StringNotLike":             {parse: like, negate: true},
	"ArnEquals":                 {parse: like},
	"ArnNotEquals":              {parse: like, negate: true},
	"ArnLike":                   {parse: like},
	"ArnNotLike":                {parse: like, negate: true},
	"Bool":                      {parse: equalsBool},
	"IpAddress":                 {parse: inside},
	"NotIpAddress":              {parse: inside, negate: true},
	"Null":                      {parse: equalsBool, null: true},
	"NumericEquals":             {parse: number(func(c int) bool { return c == 0 })},
	"NumericNotEquals":          {parse: number(func(c int) bool { return c == 0 }), negate: true},
	"NumericLessThan":           {parse: number(func(c int) bool { return c < 0 })},
	"NumericLessThanEquals":     {parse: number(func(c int) bool { return c <= 0 })},
	"NumericGreaterThan":        {parse: number(func(c int) bool { return c > 0 })},
	"NumericGreaterThanEquals":  {parse: number(func(c int) bool { return c >= 0 })},
	"DateEquals":                {parse: date(func(c int) bool { return c == 0 })},
	"DateNotEquals":             {parse: date(func(c int) bool { return c == 0 }), negate: true},
	"DateLessThan":              {parse: date(func(c int) bool { return c < 0 })},
	"DateLessThanEquals":        {parse: date(func(c int) bool { return c <= 0 })},
	"DateGreaterThan":           {parse: date(func(c int) bool { return c > 0 })},
	"DateGreaterThanEquals":     {parse: date(func(c int) bool { return c >= 0 })},
}

// conditions reads {"OPERATOR": {"KEY": VALUES, ...}, ...}.
func (d *document) conditions(text json.RawMessage) ([]condition, error) {
	byOperator, err := members(text)
	if err != nil {
		return nil, err
	}
	var all []condition
	for _, m := range byOperator {
		c, err := parseOperator(m.name)
		if err != nil {
			return nil, err
		}
		byKey, err := members(m.value)
		if err != nil {
			return nil, err
		}
		for _, k := range byKey {
			if c.key, err = parseKey(k.name); err != nil {
				return nil, err
			}
			if c.values, c.tests, err = d.tests(m.name, k, c.op); err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// parseOperator takes [ForAnyValue:|ForAllValues:]NAME[IfExists] apart.
func parseOperator(text string) (condition, error) {
	var c condition
	name, anyOf := strings.CutPrefix(text, "ForAnyValue:")
	name, allOf := strings.CutPrefix(name, "ForAllValues:")
	name, c.ifExists = strings.CutSuffix(name, "IfExists")
	switch {
	case anyOf && !allOf:
		c.set = forAnyValue
	case allOf && !anyOf:
		c.set = forAllValues
	}
	var known bool
	c.op, known = operators[name]
	if !known || (anyOf && allOf) || (c.op.null && (c.ifExists || anyOf || allOf)) {
		return c, malformed("Condition: there is no operator %.60q", text)
	}
	return c, nil
}

// parseKey returns a key as Keys writes it.
func parseKey(text string) (string, error) {
	for _, key := range keys {
		if strings.EqualFold(key, text) && !strings.HasSuffix(key, "/") {
			return key, nil
		}
		if strings.HasSuffix(key, "/") && len(text) > len(key) && strings.EqualFold(key, text[:len(key)]) {
			return key + text[len(key):], nil // a tag's name is exact
		}
	}
	return "", malformed("Condition: there is no key %.60q", text)
}

// tests reads the values of a condition: strings, numbers and booleans.
func (d *document) tests(operator string, m member, op operator) (values []string, all []test, err error) {
	list := []json.RawMessage{m.value}
	if bytes.HasPrefix(m.value, []byte("[")) {
		if json.Unmarshal(m.value, &list) != nil || len(list) == 0 || len(list) > maxValues {
			return nil, nil, malformed("Condition: %s needs 1 to %d values", m.name, maxValues)
		}
	}
	for _, value := range list {
		text := string(value)
		if value[0] == '"' {
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, nil, malformed("it is not JSON: %v", err)
			}
		} else if value[0] == '{' || value[0] == '[' || text == "null" {
			return nil, nil, malformed("Condition: %.40s is no value", value)
		}
		t, err := op.parse(text, d.variables)
		if err != nil {
			return nil, nil, malformed("Condition: %s %s cannot be %.60q", operator, m.name, text)
		}
		values, all = append(values, text), append(all, t)
	}
	return values, all, nil
}

// holds reports whether the condition is true of a request, and whether that can be
// told.
func (c *condition) holds(r *Request) (holds, known bool) {
	if r.blind(c.key) {
		return false, false
	}
	values, present := r.values(c.key)
	if c.op.null {
		return c.fits(strconv.FormatBool(!present), r.User), true
	}
	if slices.ContainsFunc(values, func(v string) bool { return len(v) > maxValue }) {
		return false, false
	}
	return c.trueOf(values, present, r), true
}

func (c *condition) trueOf(values []string, present bool, r *Request) bool {
	switch {
	case !present && c.ifExists:
		return true
	case c.set == forAllValues:
		return !slices.ContainsFunc(values, func(v string) bool { return !c.fits(v, r.User) })
	case c.set == forAnyValue:
		return slices.ContainsFunc(values, func(v string) bool { return c.fits(v, r.User) })
	case !present:
		return c.op.negate
	case c.op.negate:
		return !slices.ContainsFunc(values, func(v string) bool { return !c.fits(v, r.User) })
	}
	return slices.ContainsFunc(values, func(v string) bool { return c.fits(v, r.User) })
}

// fits reports whether the operator is true of one value of the request.
func (c *condition) fits(value, user string) bool {
	return slices.ContainsFunc(c.tests, func(t test) bool { return t(value, user) }) != c.op.negate
}

// values returns a request's values of a key, and whether it has any.
func (r *Request) values(key string) ([]string, bool) {
	switch key {
	case keyUserName, keyUserID:
		if r.User == "" {
			return nil, false
		}
		return []string{r.User}, true
	case keyPrincipal:
		if r.User == "" {
			return []string{"Anonymous"}, true
		}
		return []string{"User"}, true
	case keyTime:
		return []string{r.Time.UTC().Format(time.RFC3339)}, true
	case keyEpoch:
		return []string{strconv.FormatInt(r.Time.Unix(), 10)}, true
	}
	if r.Context == nil {
		return nil, false
	}
	return r.Context(key)
}

// maxValue bounds a value that is compared with patterns, which takes as long as both
// together at worst multiply. A condition on a longer one cannot be told.
const maxValue = 2 << 10

// confines reports whether a condition holds a statement to addresses or users that
// are fixed, and not most of the world.
func (c condition) confines() bool {
	if c.op.negate || c.op.null || c.ifExists || c.set == forAllValues {
		return false
	}
	switch c.key {
	case "aws:SourceIp":
		return !slices.ContainsFunc(c.values, wide)
	case keyUserName, keyUserID:
		return !slices.ContainsFunc(c.values, func(v string) bool { return strings.ContainsAny(v, "*?") })
	}
	return false
}

// wide reports whether a range of addresses is a large part of all.
func wide(addresses string) bool {
	prefix, err := netip.ParsePrefix(addresses)
	if err != nil {
		return false // one address
	}
	least := 32
	if prefix.Addr().Is4() {
		least = 8
	}
	return prefix.Bits() < least
}

func equals(value string, variables bool) (test, error) {
	p, err := parsePattern(value, variables, false)
	return p.match, err
}

func equalsFold(value string, variables bool) (test, error) {
	match, err := equals(strings.ToLower(value), variables)
	return func(v, user string) bool { return match(strings.ToLower(v), strings.ToLower(user)) }, err
}

func like(value string, variables bool) (test, error) {
	p, err := parsePattern(value, variables, true)
	return p.match, err
}

func equalsBool(value string, _ bool) (test, error) {
	if !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
		return nil, strconv.ErrSyntax
	}
	return func(v, _ string) bool { return strings.EqualFold(v, value) }, nil
}

func inside(value string, _ bool) (test, error) {
	prefix, err := netip.ParsePrefix(value)
	if err == nil && prefix.Addr().Is4In6() {
		prefix, err = prefix.Addr().Unmap().Prefix(prefix.Bits() - 96)
	} else if err != nil {
		var ip netip.Addr
		if ip, err = netip.ParseAddr(value); err == nil {
			ip = ip.Unmap()
			prefix = netip.PrefixFrom(ip, ip.BitLen())
		}
	}
	return func(v, _ string) bool {
		ip, err := netip.ParseAddr(v)
		return err == nil && prefix.Contains(ip.Unmap().WithZone(""))
	}, err
}

func number(verdict func(compared int) bool) func(string, bool) (test, error) {
	return func(value string, _ bool) (test, error) {
		want, err := strconv.ParseFloat(value, 64)
		if math.IsNaN(want) || math.IsInf(want, 0) {
			err = strconv.ErrRange
		}
		return func(v, _ string) bool {
			got, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return false
			}
			switch {
			case got < want:
				return verdict(-1)
			case got > want:
				return verdict(1)
			}
			return got == want && verdict(0)
		}, err
	}
}

func date(verdict func(compared int) bool) func(string, bool) (test, error) {
	return func(value string, _ bool) (test, error) {
		want, err := parseDate(value)
		return func(v, _ string) bool {
			got, err := parseDate(v)
			return err == nil && verdict(got.Compare(want))
		}, err
	}
}

// parseDate reads a date as RFC 3339 or ISO 8601 writes it, or seconds since 1970.
func parseDate(text string) (time.Time, error) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && len(text) > 4 {
		return time.Unix(seconds, 0), nil
	}
	var t time.Time
	var err error
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02"} {
		if t, err = time.Parse(layout, text); err == nil {
			break
		}
	}
	return t, err
}
