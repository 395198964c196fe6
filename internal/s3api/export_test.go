package s3api

import "net/http"

// OperationInfo is a line of the table of operations, for tests that are made from it.
type OperationInfo struct {
	Name, Method, Header, Action string
	Scope                        int // 0 service, 1 bucket, 2 object
	With                         []string
}

// Operations returns the table of operations.
func Operations() []OperationInfo {
	var all []OperationInfo
	for _, op := range newTable().operations {
		all = append(all, OperationInfo{op.name, op.method, http.CanonicalHeaderKey(op.header), op.action, int(op.scope), op.with})
	}
	return all
}

// ParseXML reads a document as handlers do.
func ParseXML(text []byte, v any) error { return parseXML(text, v) }

// FormPolicy reads a form's policy.
func FormPolicy(document []byte) error {
	_, err := parseFormPolicy(document)
	return err
}
