package objecttest_test

import (
	"testing"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/object/objecttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	objecttest.Run(t, func(*testing.T) objecttest.Holder { return objecttest.NewMemory() }, objecttest.Options{})
}
