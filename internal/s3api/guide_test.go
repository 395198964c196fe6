package s3api_test

import (
	"os"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/s3api"
)

// TestGuide sees that the guide names every operation.
func TestGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/s3.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range s3api.Operations() {
		if !strings.Contains(string(text), "`"+op.Name+"`") {
			t.Errorf("docs/guide/s3.md does not name %s", op.Name)
		}
	}
}
