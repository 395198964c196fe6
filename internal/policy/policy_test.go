package policy_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/policy"
)

func parse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("b", []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

// statement returns a policy of one statement, with some elements replaced: pairs of a
// name and JSON. An empty JSON leaves the element out.
func statement(pairs ...string) string {
	elements := map[string]string{"Effect": `"Allow"`, "Principal": `"*"`, "Action": `"s3:*"`, "Resource": `["arn:aws:s3:::b", "arn:aws:s3:::b/*"]`}
	for i := 0; i < len(pairs); i += 2 {
		elements[pairs[i]] = pairs[i+1]
	}
	var parts []string
	for name, value := range elements {
		if value != "" {
			parts = append(parts, fmt.Sprintf("%q: %s", name, value))
		}
	}
	return `{"Version": "2012-10-17", "Statement": [{` + strings.Join(parts, ", ") + `}]}`
}

func TestMalformed(t *testing.T) {
	for _, text := range []string{
		"", "null", "[]", "{", "{}", `"x"`, statement() + "x", statement() + statement(), "\xff" + statement(),
		`{"Statement": []}`, `{"Statement": null}`, `{"Statement": "x"}`, `{"Statement": [null]}`,
		strings.Replace(statement(), "2012-10-17", "2013-10-17", 1),
		strings.Replace(statement(), "Version", "version", 1),
		strings.Replace(statement(), `"Statement"`, `"Statements"`, 1),
		strings.Replace(statement(), `{"Version"`, `{"Version": "2012-10-17", "Version"`, 1),
		strings.Replace(statement(), `[{`, `[{"Effect": "Deny", `, 1),
		strings.Replace(statement(), `[{`, `[{"effect": "Deny", `, 1),
		statement("Effect", ""), statement("Effect", `"allow"`), statement("Effect", `["Allow"]`), statement("Effect", "null"),
		statement("Principal", ""), statement("Principal", `"alice"`), statement("Principal", `{}`), statement("Principal", `{"AWS": []}`),
		statement("Principal", `{"AWS": [null]}`), statement("Principal", `{"AWS": null}`), statement("Principal", `null`),
		statement("Principal", `{"Service": "s3.amazonaws.com"}`), statement("Principal", `{"Federated": "x"}`),
		statement("Principal", `{"AWS": "a b"}`), statement("Principal", `{"AWS": "al*"}`), statement("Principal", `{"CanonicalUser": "*"}`),
		statement("Principal", `{"AWS": "arn:aws:iam::1:role/x"}`), statement("Principal", `{"AWS": "arn:aws:iam::1:user/"}`),
		statement("Principal", `{"AWS": "arn:aws:iam::1:user/*"}`), statement("Principal", `{"AWS": "alice", "AWS": "bob"}`),
		statement("NotPrincipal", `{"AWS": "alice"}`), // both
		statement("Principal", "", "NotPrincipal", `{"AWS": "arn:aws:iam::s3tenant1:root"}`),
		statement("Effect", `"Deny"`, "Principal", `{"AWS": "root"}`), statement("Effect", `"Deny"`, "Principal", `{"AWS": "arn:aws:iam::1:root"}`),
		statement("Action", ""), statement("Action", `[]`), statement("Action", `"s3:Nothing"`), statement("Action", `"GetObject"`),
		statement("Action", `"ec2:*"`), statement("Action", `7`), statement("Action", `["s3:GetObject", "s3:"]`), statement("Action", `"**"`),
		statement("NotAction", `"s3:GetObject"`), statement("NotResource", `"arn:aws:s3:::b"`),
		statement("Resource", ""), statement("Resource", `"b"`), statement("Resource", `"arn:aws:s3:::other"`), statement("Resource", `"arn:aws:s3:::other/*"`),
		statement("Resource", `"arn:aws:s3:::bb/*"`), statement("Resource", `"arn:aws:s3:::"`), statement("Resource", `"arn:aws:ec2:::b"`),
		statement("Resource", `"arn:aws:s3:::b/${aws:nothing}"`), statement("Resource", `"arn:aws:s3:::b/${aws:username"`),
		statement("Resource", `"arn:aws:s3:::b/`+strings.Repeat("x", 2000)+`"`),
		statement("Sid", `7`), statement("Rule", `"x"`),
		statement("Condition", `7`), statement("Condition", `{"StringEquals": 7}`), statement("Condition", `{"StringSame": {"s3:prefix": "x"}}`),
		statement("Condition", `{"stringequals": {"s3:prefix": "x"}}`), statement("Condition", `{"ForAnyValue:ForAllValues:StringEquals": {"s3:prefix": "x"}}`),
		statement("Condition", `{"StringEquals": {"s3:unheard": "x"}}`), statement("Condition", `{"StringEquals": {"s3:ExistingObjectTag/": "x"}}`),
		statement("Condition", `{"StringEquals": {"s3:prefix": []}}`), statement("Condition", `{"StringEquals": {"s3:prefix": null}}`),
		statement("Condition", `{"StringEquals": {"s3:prefix": {"a": 1}}}`), statement("Condition", `{"StringEquals": {"s3:prefix": "x", "s3:prefix": "y"}}`),
		statement("Condition", `{"NumericEquals": {"s3:max-keys": "x"}}`), statement("Condition", `{"NumericEquals": {"s3:max-keys": "NaN"}}`),
		statement("Condition", `{"Bool": {"aws:SecureTransport": "yes"}}`), statement("Condition", `{"IpAddress": {"aws:SourceIp": "10.0.0.0/33"}}`),
		statement("Condition", `{"DateLessThan": {"aws:CurrentTime": "soon"}}`), statement("Condition", `{"NullIfExists": {"s3:prefix": "true"}}`),
		statement("Condition", `{"BinaryEquals": {"s3:prefix": "x"}}`),
		strings.Repeat(" ", object.MaxPolicy) + statement(),
		`{"Statement": [` + strings.Repeat(statementOf(statement())+",", 150) + statementOf(statement()) + `]}`,
		`{"Statement": [` + statementOf(statement("Sid", `"a"`)) + `,` + statementOf(statement("Sid", `"a"`)) + `]}`,
	} {
		_, err := policy.Parse("b", []byte(text))
		if !errors.Is(err, policy.ErrMalformed) || !object.Is(err, object.Invalid) {
			t.Errorf("%.300s: %v", text, err)
		} else if len(err.Error()) > 500 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}

func statementOf(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	return rest[:len(rest)-2]
}

func TestMatching(t *testing.T) {
	for _, tt := range []struct {
		policy string
		yes    string // requests that it is about: USER ACTION KEY; - is none
		no     string
	}{
		{statement(), "- GetObject k, alice GetObject k, alice ListBucket -, alice DeleteBucket -", ""},
		{statement("Principal", `{"AWS": "*"}`), "- GetObject k, alice GetObject k", ""},
		{statement("Principal", `{"AWS": "alice"}`), "alice GetObject k", "- GetObject k, bob GetObject k, alice2 GetObject k"},
		{statement("Principal", `{"AWS": ["alice", "arn:aws:iam::123:user/team/bob"], "CanonicalUser": "carol"}`), "alice GetObject k, bob GetObject k, carol GetObject k", "team GetObject k"},
		{statement("Principal", `{"AWS": "arn:aws:iam::123:root"}`), "root GetObject k", "alice GetObject k, - GetObject k"},
		{statement("Principal", `{"AWS": "123456789012"}`), "root GetObject k", "alice GetObject k"},
		{statement("Action", `"s3:GetObject"`), "alice GetObject k", "alice GetObjectVersion k, alice PutObject k"},
		{statement("Action", `"S3:getobject*"`), "alice GetObject k, alice GetObjectVersion k, alice GetObjectAcl k", "alice GetBucketAcl -"},
		{statement("Action", `["s3:?etObject", "s3:List*"]`), "alice GetObject k, alice ListBucket -", "alice PutObject k"},
		{statement("Action", `"*"`), "alice GetObject k, alice DeleteBucket -", ""},
		{statement("Action", "", "NotAction", `["s3:Delete*"]`), "alice GetObject k", "alice DeleteObject k"},
		{statement("Resource", `"arn:aws:s3:::b"`), "alice ListBucket -", "alice GetObject k"},
		{statement("Resource", `"arn:aws:s3:::b/*"`), "alice GetObject k, alice GetObject a/b/c", "alice ListBucket -"},
		{statement("Resource", `"arn:aws:s3:::b/a/*"`), "alice GetObject a/b, alice GetObject a/", "alice GetObject a, alice GetObject b/a/x"},
		{statement("Resource", `"arn:aws:s3:::b/?"`), "alice GetObject a, alice GetObject ä, alice GetObject 猫", "alice GetObject ab"},
		{statement("Resource", `"arn:aws:s3:::b/*.jpg"`), "alice GetObject a.jpg, alice GetObject .jpg.jpg", "alice GetObject a.jpg.gif"},
		{statement("Resource", `"arn:aws:s3:::b/*a*b*c"`), "alice GetObject xaybzc, alice GetObject abbbc", "alice GetObject acb, alice GetObject xaybzcd"},
		{statement("Resource", `"arn:aws:s3:::*"`), "alice GetObject k, alice ListBucket -", ""},
		{statement("Resource", `["arn:aws:s3:::*/*"]`), "alice GetObject k", "alice ListBucket -"},
		{statement("Resource", `"*"`), "alice GetObject k, alice ListBucket -", ""},
		{statement("Resource", "", "NotResource", `"arn:aws:s3:::b/secret*"`), "alice GetObject k", "alice GetObject secrets"},
		{statement("Resource", `"arn:aws:s3:::b/home/${aws:username}/*"`), "alice GetObject home/alice/x", "alice GetObject home/bob/x, - GetObject home//x, alice GetObject home/${aws:username}/x"},
		{statement("Resource", `"arn:aws:s3:::b/${*}${?}${$}"`), "alice GetObject *?$", "alice GetObject abc"},
		{strings.Replace(statement("Resource", `"arn:aws:s3:::b/${aws:username}"`), "2012", "2008", 1), "alice GetObject ${aws:username}", "alice GetObject alice"},
	} {
		p := parse(t, tt.policy)
		for want, list := range map[policy.Effect]string{policy.Allow: tt.yes, policy.None: tt.no} {
			for _, text := range strings.Split(list, ", ") {
				if len(text) == 0 {
					continue
				}
				f := strings.Split(text, " ")
				for i := range f {
					f[i] = strings.TrimPrefix(f[i], "-")
				}
				got := p.Evaluate(&policy.Request{User: f[0], Action: "s3:" + f[1], Bucket: "b", Key: f[2]})
				if got != want {
					t.Errorf("%s: %s gives %d, want %d", tt.policy, text, got, want)
				}
			}
		}
	}
}

func TestConditions(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	facts := map[string][]string{
		"s3:prefix": {"pub/a"}, "s3:max-keys": {"10"}, "aws:SourceIp": {"10.1.2.3"}, "aws:SecureTransport": {"true"},
		"aws:Referer": {"http://www.example.com/x"}, "aws:UserAgent": {"Boto3"}, "s3:x-amz-acl": {"public-read"},
		"s3:ExistingObjectTag/Class": {"open"}, "s3:RequestObjectTagKeys": {"a", "b"}, "s3:x-amz-copy-source": {"b/public/foo"},
	}
	for text, want := range map[string]bool{
		`{}`: true,
		`{"StringEquals": {"s3:prefix": "pub/a"}}`:                                         true,
		`{"StringEquals": {"S3:Prefix": ["x", "pub/a"]}}`:                                  true,
		`{"StringEquals": {"s3:prefix": "pub/*"}}`:                                         false,
		`{"StringEquals": {"s3:prefix": "Pub/a"}}`:                                         false,
		`{"StringEquals": {"s3:delimiter": "/"}}`:                                          false,
		`{"StringEqualsIfExists": {"s3:delimiter": "/"}}`:                                  true,
		`{"StringEqualsIfExists": {"s3:prefix": "x"}}`:                                     false,
		`{"StringNotEquals": {"s3:prefix": "x"}}`:                                          true,
		`{"StringNotEquals": {"s3:prefix": ["x", "pub/a"]}}`:                               false,
		`{"StringNotEquals": {"s3:delimiter": "/"}}`:                                       true,
		`{"StringEqualsIgnoreCase": {"s3:prefix": "PUB/A"}}`:                               true,
		`{"StringNotEqualsIgnoreCase": {"s3:prefix": "PUB/A"}}`:                            false,
		`{"StringLike": {"s3:prefix": "pub/*"}}`:                                           true,
		`{"StringLike": {"s3:prefix": "pub*/?"}}`:                                          true,
		`{"StringNotLike": {"s3:prefix": "pub/*"}}`:                                        false,
		`{"StringNotLike": {"aws:Referer": "http://www.other.com/*"}}`:                     true,
		`{"StringLike": {"aws:UserAgent": "Boto*"}}`:                                       true,
		`{"StringLike": {"s3:x-amz-copy-source": "b/public/*"}}`:                           true,
		`{"StringEquals": {"s3:x-amz-acl": ["public-read"]}}`:                              true,
		`{"StringEquals": {"s3:ExistingObjectTag/Class": "open"}}`:                         true,
		`{"StringEquals": {"s3:existingobjecttag/Class": "open"}}`:                         true,
		`{"StringEquals": {"s3:ExistingObjectTag/class": "open"}}`:                         false,
		`{"NumericEquals": {"s3:max-keys": 10}}`:                                           true,
		`{"NumericEquals": {"s3:max-keys": "10.0"}}`:                                       true,
		`{"NumericNotEquals": {"s3:max-keys": 10}}`:                                        false,
		`{"NumericLessThan": {"s3:max-keys": 10}}`:                                         false,
		`{"NumericLessThanEquals": {"s3:max-keys": 10}}`:                                   true,
		`{"NumericGreaterThan": {"s3:max-keys": 9}}`:                                       true,
		`{"NumericGreaterThanEquals": {"s3:max-keys": 11}}`:                                false,
		`{"NumericLessThan": {"s3:prefix": 10}}`:                                           false,
		`{"Bool": {"aws:SecureTransport": true}}`:                                          true,
		`{"Bool": {"aws:SecureTransport": "False"}}`:                                       false,
		`{"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}`:                                    true,
		`{"IpAddress": {"aws:SourceIp": ["192.168.0.0/16", "10.1.2.3"]}}`:                  true,
		`{"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}}`:                                 false,
		`{"NotIpAddress": {"aws:SourceIp": "2001:db8::/32"}}`:                              true,
		`{"Null": {"s3:delimiter": "true"}}`:                                               true,
		`{"Null": {"s3:delimiter": "false"}}`:                                              false,
		`{"Null": {"s3:prefix": false}}`:                                                   true,
		`{"DateLessThan": {"aws:CurrentTime": "2027-01-01T00:00:00Z"}}`:                    true,
		`{"DateGreaterThan": {"aws:CurrentTime": "2027-01-01"}}`:                           false,
		`{"DateGreaterThanEquals": {"aws:EpochTime": "1577836800"}}`:                       true,
		`{"NumericGreaterThan": {"aws:EpochTime": 1577836800}}`:                            true,
		`{"StringEquals": {"aws:username": "alice"}}`:                                      true,
		`{"StringEquals": {"aws:PrincipalType": "User"}}`:                                  true,
		`{"StringLike": {"s3:prefix": "${aws:username}/*"}}`:                               false,
		`{"ArnLike": {"s3:prefix": "pub/?"}}`:                                              true,
		`{"ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": ["b", "c"]}}`:            true,
		`{"ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": ["c"]}}`:                 false,
		`{"ForAnyValue:StringEquals": {"s3:RequestObjectTag/x": ["c"]}}`:                   false,
		`{"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["a", "b", "c"]}}`:      true,
		`{"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["a", "c"]}}`:           false,
		`{"ForAllValues:StringEquals": {"s3:RequestObjectTag/x": ["a"]}}`:                  true,
		`{"ForAllValues:StringLikeIfExists": {"s3:RequestObjectTagKeys": "?"}}`:            true,
		`{"StringEquals": {"s3:prefix": "pub/a", "aws:UserAgent": "x"}}`:                   false,
		`{"StringEquals": {"s3:prefix": "pub/a"}, "Bool": {"aws:SecureTransport": false}}`: false,
	} {
		got := parse(t, statement("Condition", text)).Evaluate(&policy.Request{
			User: "alice", Action: "s3:ListBucket", Bucket: "b", Time: now,
			Context: func(key string) ([]string, bool) { v, ok := facts[key]; return v, ok },
		})
		if (got == policy.Allow) != want {
			t.Errorf("%s: %d, want %v", text, got, want)
		}
	}
}

func TestDenyWins(t *testing.T) {
	allow, deny := statementOf(statement()), statementOf(statement("Effect", `"Deny"`, "Action", `"s3:GetObject"`))
	for _, text := range []string{allow + "," + deny, deny + "," + allow, allow + "," + deny + "," + allow} {
		p := parse(t, `{"Statement": [`+text+`]}`)
		if got := p.Evaluate(&policy.Request{Action: "s3:GetObject", Bucket: "b", Key: "k"}); got != policy.Deny {
			t.Errorf("%s: %d", text, got)
		}
		if got := p.Evaluate(&policy.Request{Action: "s3:PutObject", Bucket: "b", Key: "k"}); got != policy.Allow {
			t.Errorf("%s: %d", text, got)
		}
	}
	others := parse(t, statement("Effect", `"Deny"`, "Principal", "", "NotPrincipal", `{"AWS": ["alice", "root"]}`))
	for user, want := range map[string]policy.Effect{"alice": policy.None, "root": policy.None, "bob": policy.Deny, "": policy.Deny} {
		if got := others.Evaluate(&policy.Request{User: user, Action: "s3:GetObject", Bucket: "b", Key: "k"}); got != want {
			t.Errorf("all but alice and root are denied: %q gets %d", user, got)
		}
	}
	blind := &policy.Request{Action: "s3:GetObject", Bucket: "b", Key: "k", Blind: []string{"s3:ExistingObjectTag/", "s3:prefix"}}
	for _, key := range []string{"s3:ExistingObjectTag/a", "s3:prefix"} {
		condition := fmt.Sprintf(`{"StringEquals": {%q: "x"}}`, key)
		if got := parse(t, statement("Condition", condition)).Evaluate(blind); got != policy.None {
			t.Errorf("an Allow on %s, which cannot be seen: %d", key, got)
		}
		if got := parse(t, statement("Effect", `"Deny"`, "Condition", condition)).Evaluate(blind); got != policy.Deny {
			t.Errorf("a Deny on %s, which cannot be seen: %d", key, got)
		}
	}
}

func TestIsPublic(t *testing.T) {
	for text, want := range map[string]bool{
		statement():                                                                                            true,
		statement("Principal", `{"AWS": "*"}`):                                                                 true,
		statement("Principal", `{"AWS": ["alice"]}`):                                                           false,
		statement("Principal", `{"AWS": "arn:aws:iam::s3tenant1:root"}`):                                       false,
		statement("Effect", `"Deny"`):                                                                          false,
		statement("Condition", `{"IpAddress": {"aws:SourceIp": "10.0.0.0/32"}}`):                               false,
		statement("Condition", `{"IpAddress": {"aws:SourceIp": ["10.0.0.1", "10.0.0.0/8"]}}`):                  false,
		statement("Condition", `{"IpAddress": {"aws:SourceIp": ["10.0.0.1", "0.0.0.0/1"]}}`):                   true,
		statement("Condition", `{"IpAddressIfExists": {"aws:SourceIp": "10.0.0.0/32"}}`):                       true,
		statement("Condition", `{"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}}`):                             true,
		statement("Condition", `{"StringEquals": {"aws:username": "alice"}}`):                                  false,
		statement("Condition", `{"StringLike": {"aws:username": "a*"}}`):                                       true,
		statement("Condition", `{"StringLike": {"aws:Referer": "http://www.example.com/*"}}`):                  true,
		`{"Statement": [` + statementOf(statement("Effect", `"Deny"`)) + `,` + statementOf(statement()) + `]}`: true,
	} {
		if got := parse(t, text).IsPublic(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if got := parse(t, statement("Principal", `{"AWS": ["bob", "arn:aws:iam::1:user/alice", "bob", "*"]}`)).Users(); fmt.Sprint(got) != "[alice bob]" {
		t.Errorf("it names %v", got)
	}
}

// FuzzParse: what is accepted can be asked anything, and says the same twice.
func FuzzParse(f *testing.F) {
	f.Add([]byte(statement("Condition", `{"StringLike": {"s3:prefix": "${aws:username}*?"}}`)), "alice", "k")
	f.Add([]byte(statement("Principal", `{"AWS": ["alice"]}`, "Resource", `"arn:aws:s3:::b/*a*"`)), "", "a")
	f.Fuzz(func(t *testing.T, text []byte, user, key string) {
		p, err := policy.Parse("b", text)
		if err != nil {
			if !errors.Is(err, policy.ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		r := &policy.Request{User: user, Action: "s3:GetObject", Bucket: "b", Key: key, Context: func(string) ([]string, bool) { return []string{key}, user != "" }}
		if first := p.Evaluate(r); p.Evaluate(r) != first {
			t.Error("it says two things")
		}
		if p.Evaluate(&policy.Request{Action: "s3:GetObject", Bucket: "b", Key: key}) == policy.Allow && !p.IsPublic() && !bytes.Contains(text, []byte("Condition")) {
			t.Error("everybody is allowed, but it is not public")
		}
	})
}
