package chaos

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/testcluster"
)

func TestMain(m *testing.M) {
	sweep(dead)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		sweep(func(pid int) bool { return pid == os.Getpid() })
		os.Exit(1)
	}()
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		sweep(func(pid int) bool { return pid == os.Getpid() })
		os.Exit(code)
	}))
}

// build makes the binary under test, once.
var build = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("PENSTOCK_CHAOS_BINARY"); given != "" {
		return given, nil
	}
	dir, err := os.MkdirTemp(root(), fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		return "", err
	}
	if os.Getenv("PENSTOCK_CHAOS_RACE") != "" {
		return testcluster.Build(dir, "-race")
	}
	return testcluster.Build(dir)
})

// binary returns the path of the binary under test.
func binary(tb testing.TB) string {
	tb.Helper()
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
