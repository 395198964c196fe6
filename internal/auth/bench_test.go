package auth_test

import (
	"testing"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
)

// BenchmarkAllowed is what each request of a user costs beyond that of root's.
func BenchmarkAllowed(b *testing.B) {
	a, _, err := auth.Open(b.Context(), nodetest.Control(b), auth.Options{})
	if err != nil {
		b.Fatal(err)
	}
	access := object.Access{Owner: "alice", Grants: map[string]string{"bob": auth.Read}}
	withPolicy := access
	withPolicy.Policy = `{"Statement": {"Effect": "Allow", "Principal": {"AWS": "bob"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/some/*"}}`
	for name, access := range map[string]object.Access{"grant": access, "policy": withPolicy} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := a.Allowed(auth.User{Name: "bob"}, access, ask("s3:GetObject", "bucket", "some/key")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
