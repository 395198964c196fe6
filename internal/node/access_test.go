package node_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
)

func TestAccessIsKept(t *testing.T) {
	control := nodetest.Control(t)
	n := nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control}, "roots")
	access := object.Access{Owner: "alice", ACL: "public-read", Policy: " {\"a\":\t1} ", Grants: map[string]string{"bob": "read"}}
	if _, err := n.CreateBucketAs(t.Context(), "hers", node.Properties{Quota: 7}, access); err != nil {
		t.Fatal(err)
	}
	_, err := n.CreateBucketAs(t.Context(), "hers", node.Properties{}, object.Access{Owner: "bob"})
	wantKind(t, "again", err, object.Exists)
	// Another node, or the next start, sees it byte for byte; a change of properties
	// leaves it.
	if _, err := n.SetBucket(t.Context(), "hers", []byte(`{"quota": 8}`)); err != nil {
		t.Fatal(err)
	}
	other := nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control})
	b, err := other.Bucket("hers")
	if err != nil || !reflect.DeepEqual(b.Access, access) || b.Quota != 8 {
		t.Errorf("kept: %+v, %v", b, err)
	}
	if b, _ := other.Bucket("roots"); !reflect.DeepEqual(b.Access, object.Access{}) {
		t.Errorf("root's: %+v", b)
	}
	for _, patch := range []string{`{"owner": "bob"}`, `{"grants": {}}`, `{"acl": "x"}`, `{"policy": "x"}`} {
		_, err := n.SetBucket(t.Context(), "hers", []byte(patch))
		wantKind(t, patch, err, object.Invalid, "cannot be set")
	}
}

func TestSetAccess(t *testing.T) {
	control := nodetest.Control(t)
	n := nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control}, "bucket")
	ctx := t.Context()
	refusal := object.Errorf(object.Denied, "no")
	_, err := n.SetAccess(ctx, "bucket", func(a object.Access) (object.Access, error) { return object.Access{Owner: "x"}, refusal })
	wantKind(t, "refused", err, object.Denied)
	for what, access := range map[string]object.Access{
		"policy": {Policy: strings.Repeat("x", object.MaxPolicy+1)},
		"grants": {Grants: func() map[string]string {
			all := map[string]string{}
			for i := range object.MaxGrants + 1 {
				all[fmt.Sprint(i)] = "read"
			}
			return all
		}()},
	} {
		_, err = n.SetAccess(ctx, "bucket", func(object.Access) (object.Access, error) { return access, nil })
		wantKind(t, what, err, object.Invalid)
	}
	_, err = n.SetAccess(ctx, "bucket", func(a object.Access) (object.Access, error) { return object.Access{Owner: "x"}, nil }, cluster.IfPresent("gone"))
	wantKind(t, "condition", err, object.Busy)
	_, err = n.SetAccess(ctx, "nosuch", func(a object.Access) (object.Access, error) { return a, nil })
	wantKind(t, "no bucket", err, object.NotFound)
	if b, err := n.Bucket("bucket"); err != nil || b.Access.Owner != "" {
		t.Errorf("%+v, %v", b, err)
	}
	// Many at once lose nothing.
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := n.SetAccess(ctx, "bucket", func(a object.Access) (object.Access, error) {
				grants := map[string]string{fmt.Sprint(i): "read"}
				for name, right := range a.Grants {
					grants[name] = right
				}
				a.Grants = grants
				return a, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b, _ := n.Bucket("bucket"); len(b.Access.Grants) != 20 {
		t.Errorf("%d grants of 20 are there", len(b.Access.Grants))
	}
}

func TestOwners(t *testing.T) {
	store := nodetest.NewStore()
	control := nodetest.Control(t)
	n := nodetest.Open(t, node.Options{Store: store, Control: control}, "bucket")
	ctx := t.Context()
	_, err := n.CreateBucketAs(ctx, "hers", node.Properties{}, object.Access{Owner: "alice"}, cluster.IfPresent("gone"))
	wantKind(t, "owner gone", err, object.Denied)
	if _, err := n.Bucket("hers"); !object.Is(err, object.NotFound) {
		t.Errorf("the bucket was made: %v", err)
	}
	if _, err := n.CreateBucketAs(ctx, "hers", node.Properties{}, object.Access{Owner: "alice", Grants: map[string]string{"bob": "read", "carol": "write"}}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "forget the owner", n.Forget(ctx, "alice"), object.Exists, "hers")
	if err := n.Forget(ctx, "bob"); err != nil {
		t.Fatal(err)
	}
	if b, _ := n.Bucket("hers"); !reflect.DeepEqual(b.Access.Grants, map[string]string{"carol": "write"}) {
		t.Errorf("the grants are %v", b.Access.Grants)
	}
	if _, err := store.Put(ctx, object.Name{Bucket: "lost", Key: "k"}, strings.NewReader("x"), object.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = n.CreateBucketAs(ctx, "lost", node.Properties{}, object.Access{Owner: "alice"})
	wantKind(t, "lost bucket", err, object.Denied)
	if _, err = n.CreateBucket(ctx, "lost", node.Properties{}); err != nil {
		t.Error(err)
	}
}
