package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/fault"
)

// BenchmarkTxn is the cost of a transaction without that of the disk, among 1000
// records of 1 KiB: all are written for a durable one, none for a leased one.
func BenchmarkTxn(b *testing.B) {
	for _, leased := range []bool{false, true} {
		b.Run(fmt.Sprintf("leased=%t", leased), func(b *testing.B) {
			a := open(b, disks(fault.NewMemory(1))...)
			for i := range 1000 {
				if err := a.put(fmt.Sprint(i), string(make([]byte, 1024))); err != nil {
					b.Fatal(err)
				}
			}
			var lease cluster.Lease
			if leased {
				var err error
				if lease, err = a.Grant(b.Context(), time.Hour); err != nil {
					b.Fatal(err)
				}
			}
			txn := cluster.Txn{Then: []cluster.Op{cluster.PutLeased("k", []byte("v"), lease.ID)}}
			for b.Loop() {
				if _, err := a.Txn(b.Context(), txn); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
