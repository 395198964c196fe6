package s3api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// formPolicy is what somebody has signed about forms that others send for him.
type formPolicy struct {
	until      time.Time
	conditions []formCondition
	sizes      sizes
}

// formCondition is about one field.
type formCondition struct {
	field string // in lower case
	value string
	start bool // the field's value begins with it; else it is it
}

func invalidPolicy(format string, args ...any) error {
	return &s3Error{code: &code{"InvalidPolicyDocument", http.StatusBadRequest, "Invalid Policy: " + fmt.Sprintf(format, args...)}}
}

func againstPolicy(format string, args ...any) error {
	return faultf(accessDenied, "Invalid according to Policy: "+format, args...)
}

// parseFormPolicy reads a policy. What is not understood is refused: it was meant to
// forbid something. Names of its parts have a case, names of fields have none.
func parseFormPolicy(document []byte) (*formPolicy, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(document, &parts); err != nil {
		return nil, invalidPolicy("Invalid JSON.")
	}
	p := &formPolicy{sizes: sizes{most: maxPut}}
	for name, part := range parts {
		var err error
		switch name {
		case "expiration":
			err = p.expiration(part)
		case "conditions":
			err = p.all(part)
		default:
			err = invalidPolicy("Unexpected: '%.40s'.", name)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case p.until.IsZero():
		return nil, invalidPolicy("Policy missing expiration.")
	case p.conditions == nil:
		return nil, invalidPolicy("Policy missing conditions.")
	}
	return p, nil
}

func (p *formPolicy) expiration(part json.RawMessage) error {
	var text string
	err := json.Unmarshal(part, &text)
	if err == nil {
		p.until, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return invalidPolicy("Invalid 'expiration' value: %.80s", part)
	}
	return nil
}

func (p *formPolicy) all(part json.RawMessage) error {
	var list []json.RawMessage
	if err := json.Unmarshal(part, &list); err != nil || list == nil {
		return invalidPolicy("Invalid 'conditions' value: must be a List.")
	}
	p.conditions = []formCondition{}
	for _, one := range list {
		var err error
		if bytes.HasPrefix(bytes.TrimSpace(one), []byte("{")) {
			err = p.simple(one)
		} else {
			err = p.triple(one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// simple reads a condition like {"acl": "private"}.
func (p *formPolicy) simple(one json.RawMessage) error {
	var fields map[string]string
	if err := json.Unmarshal(one, &fields); err != nil || len(fields) == 0 {
		return invalidPolicy("Invalid Simple-Condition: %.80s", one)
	}
	for name, value := range fields {
		p.conditions = append(p.conditions, formCondition{field: strings.ToLower(name), value: value})
	}
	return nil
}

// triple reads one like ["starts-with", "$key", "user/"].
func (p *formPolicy) triple(one json.RawMessage) error {
	var parts []any
	d := json.NewDecoder(bytes.NewReader(one))
	d.UseNumber()
	if err := d.Decode(&parts); err != nil || len(parts) != 3 {
		return invalidPolicy("Invalid Condition: %.80s", one)
	}
	verb, _ := parts[0].(string)
	verb = strings.ToLower(verb)
	if verb == "content-length-range" {
		least, ok := wholeNumber(parts[1])
		most, also := wholeNumber(parts[2])
		if !ok || !also {
			return invalidPolicy("Invalid content-length-range: %.80s", one)
		}
		p.sizes.least, p.sizes.most = max(p.sizes.least, least), min(p.sizes.most, most)
		return nil
	}
	field, isText := parts[1].(string)
	name, isField := strings.CutPrefix(field, "$")
	value, hasValue := parts[2].(string)
	if (verb != "eq" && verb != "starts-with") || !isText || !isField || !hasValue {
		return invalidPolicy("Invalid Condition: %.80s", one)
	}
	p.conditions = append(p.conditions, formCondition{field: strings.ToLower(name), value: value, start: verb == "starts-with"})
	return nil
}

func wholeNumber(v any) (int64, bool) {
	text, ok := v.(string)
	if number, is := v.(json.Number); is {
		text, ok = number.String(), true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, ok && err == nil && n >= 0
}

// uncovered are the fields of which a policy need not say anything. A checksum only
// narrows what may be sent.
func uncovered(field string) bool {
	switch field {
	case "policy", "signature", "awsaccesskeyid", "x-amz-signature", "x-amz-sdk-checksum-algorithm":
		return true
	}
	return strings.HasPrefix(field, "x-ignore-") || strings.HasPrefix(field, "x-amz-checksum-")
}

// check holds a form against the policy: every condition must hold, and every field
// must be the matter of one.
func (p *formPolicy) check(fields map[string]string, now time.Time) error {
	if now.After(p.until) {
		return againstPolicy("Policy expired.")
	}
	covered := make(map[string]bool, len(p.conditions))
	for _, c := range p.conditions {
		covered[c.field] = true
		value := fields[c.field]
		if c.start && !strings.HasPrefix(value, c.value) {
			return againstPolicy(`Policy Condition failed: ["starts-with", "$%.80s", "%.80s"]`, c.field, c.value)
		}
		if !c.start && value != c.value {
			return againstPolicy(`Policy Condition failed: ["eq", "$%.80s", "%.80s"]`, c.field, c.value)
		}
	}
	for field := range fields {
		if !covered[field] && !uncovered(field) {
			return againstPolicy("Extra input fields: %.80s", field)
		}
	}
	return nil
}
