package sigv4

import (
	"crypto/subtle"
	"encoding/base64"
)

// VerifyForm checks who signed the policy of a form with which a browser sends an
// object, and returns the access key and whether it signed with version 2; the key is
// empty if the form has no signature and no policy. The names of fields are in lower case. That the request itself was
// anonymous, and that the form meets the conditions of its policy, its end among
// them, is for the caller to check: the policy is the field of that name, in base64.
func (v *Verifier) VerifyForm(fields map[string]string) (accessKey string, version2 bool, err error) {
	_, version2 = fields["awsaccesskeyid"]
	if _, also := fields["signature"]; also || version2 {
		if fields["x-amz-signature"] != "" || fields["x-amz-credential"] != "" {
			return "", true, errTwoWays
		}
		accessKey, err = v.verifyOldForm(fields)
		return accessKey, true, err
	}
	accessKey, err = v.verifyForm(fields)
	return accessKey, false, err
}

func (v *Verifier) verifyForm(fields map[string]string) (accessKey string, err error) {
	c := credentials{kind: form}
	var given int
	for _, name := range [...]string{"policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"} {
		if fields[name] != "" {
			given++
		} else if _, empty := fields[name]; empty {
			return "", c.malformed("%s is empty", name)
		}
	}
	if given == 0 {
		return "", nil
	}
	if given != 5 {
		return "", fail(AccessDenied, "A form with a policy needs policy, x-amz-algorithm, x-amz-credential, x-amz-date and x-amz-signature")
	}
	if fields["x-amz-security-token"] != "" {
		return "", errToken
	}
	if err := checkAlgorithm(&c, fields["x-amz-algorithm"]); err != nil {
		return "", err
	}
	c.date, c.signature, c.expires = fields["x-amz-date"], fields["x-amz-signature"], maxExpires
	if err := c.complete(fields["x-amz-credential"]); err != nil {
		return "", err
	}
	if err := v.timely(nil, &c); err != nil {
		return "", err
	}
	secret, err := v.secret(&c)
	if err != nil {
		return "", err
	}
	s := v.scratch()
	defer v.put(s)
	s.buf = append(s.buf[:0], fields["policy"]...)
	newSigner(keyName{c.accessKey, secret, c.day, c.region}).sign(s, s.buf)
	if subtle.ConstantTimeCompare(s.signature[:], append(s.given[:0], c.signature...)) != 1 {
		return "", errSignature
	}
	if _, err := base64.StdEncoding.DecodeString(fields["policy"]); err != nil {
		return "", fail(InvalidPolicyDocument, "Invalid Policy: Invalid Base64 encoding.")
	}
	return c.accessKey, nil
}
