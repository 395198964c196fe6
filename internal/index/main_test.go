package index_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if large.dir != "" {
			os.RemoveAll(large.dir)
		}
		os.Exit(code)
	}))
}
