package penstock_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/object/objecttest"
	"penstock.dev/penstock/internal/testcluster"
)

// binary is the node that the tests of this package run, built by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "penstock-client-")
	if err == nil {
		defer os.RemoveAll(dir)
		binary, err = testcluster.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := m.Run()
	if err := goleak.Find(); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// connect starts a node and returns a client of it.
func connect(t *testing.T) *penstock.Client {
	t.Helper()
	node := testcluster.Start(t, testcluster.Options{Binary: binary})
	client, err := penstock.New(penstock.Options{Endpoint: node.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestConformance(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) objecttest.Holder {
		client := connect(t)
		for _, bucket := range []string{objecttest.Bucket, objecttest.Other} {
			if _, err := client.CreateBucket(t.Context(), bucket, penstock.BucketOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		return client
	}, objecttest.Options{Steps: 200})
}
