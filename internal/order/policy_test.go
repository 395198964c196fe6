package order_test

import (
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/order"
)

func TestPolicyTexts(t *testing.T) {
	for _, v := range policyVectors {
		policy, err := order.ParsePolicy(v.Text)
		if v.Canonical == "" {
			if !object.Is(err, object.Invalid) || !strings.Contains(err.Error(), "window:") {
				t.Errorf("%q: %v, %v", v.Text, policy, err)
			}
			continue
		}
		if err != nil || policy.String() != v.Canonical {
			t.Errorf("%q: %v, %v, want %s", v.Text, policy, err, v.Canonical)
		}
	}
	if got := (order.Policy{}).String(); got != "none" {
		t.Errorf("the zero policy is %s", got)
	}
	for size, want := range map[uint64]string{0: "window:1B", 1<<64 - 1: "window:9223372036854775807B"} {
		if got := order.Window(size).String(); got != want {
			t.Errorf("a window of %d bytes is %s, want %s", size, got, want)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	for _, v := range policyVectors {
		f.Add(v.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		policy, err := order.ParsePolicy(text)
		if err != nil {
			if !object.Is(err, object.Invalid) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := order.ParsePolicy(policy.String())
		if err != nil || again != policy {
			t.Fatalf("%q is %v, which is %v, %v", text, policy, again, err)
		}
		if strings.HasPrefix(text, "window:") == (policy == order.None() || policy == order.Full()) {
			t.Fatalf("%q is %v", text, policy)
		}
	})
}
