package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"penstock.dev/penstock/internal/order"
)

// everySampleOnce marks every sample of an epoch in a table of bits.
func everySampleOnce(d data, resident uint64) error {
	for _, policy := range []order.Policy{order.Full(), order.Window(resident)} {
		o := d.order(policy, 1)
		begin := time.Now()
		seen := make([]atomic.Uint64, (d.samples+63)/64)
		var again, next atomic.Uint64
		var workers sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			workers.Go(func() {
				some := make([]uint64, 1<<16)
				for {
					position := next.Add(uint64(len(some))) - uint64(len(some))
					n := o.Read(some, position)
					if n == 0 {
						return
					}
					for _, sample := range some[:n] {
						bit := uint64(1) << (sample % 64)
						if seen[sample/64].Or(bit)&bit != 0 {
							again.Add(1)
						}
					}
				}
			})
		}
		workers.Wait()
		// As many positions as samples: if none was there twice, none is missing. A
		// sample that does not exist would lie outside the table, or in its last bits.
		for sample := d.samples; sample < uint64(len(seen))*64; sample++ {
			if seen[sample/64].Load()&(1<<(sample%64)) != 0 {
				return fmt.Errorf("%v: sample %d of %d", policy, sample, d.samples)
			}
		}
		if n := again.Load(); n > 0 {
			return fmt.Errorf("%v: %d of %d samples came again", policy, n, d.samples)
		}
		fmt.Printf("%v: all of %d samples once, with %d chunks in use; %.0f s\n", policy, d.samples, o.Width(), time.Since(begin).Seconds())
	}
	return nil
}
