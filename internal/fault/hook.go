package fault

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Short is what a Hook returns to let a write do only its first N bytes and then
// fail with Err, as a full or failing drive does. On anything but a write it acts
// like Err alone.
type Short struct {
	N   int64
	Err error
}

func (s *Short) Error() string { return fmt.Sprintf("after %d bytes: %v", s.N, s.Err) }

// Unwrap returns Err.
func (s *Short) Unwrap() error { return s.Err }

// Flip is what a Hook returns to let a read succeed with wrong bytes: the byte at
// Offset in the file is combined with Mask by exclusive or, if the read covers it.
// It does not touch operations that are no reads.
type Flip struct {
	Offset int64
	Mask   byte
}

func (f *Flip) Error() string { return fmt.Sprintf("flip %#02x at %d", f.Mask, f.Offset) }

// FailNth fails the n-th operation among those of the given kinds, counting from
// 1, and no other.
func FailNth(n int64, kinds OpKind, err error) Hook {
	var seen atomic.Int64
	return func(op Op) error {
		if op.Kind&kinds != 0 && seen.Add(1) == n {
			return err
		}
		return nil
	}
}

// FailFrom fails the n-th operation of the given kinds and all later ones, as a
// drive that has died does.
func FailFrom(n int64, kinds OpKind, err error) Hook {
	var seen atomic.Int64
	return func(op Op) error {
		if op.Kind&kinds != 0 && seen.Add(1) >= n {
			return err
		}
		return nil
	}
}

// FailMatching fails every operation that match picks.
func FailMatching(match func(Op) bool, err error) Hook {
	return func(op Op) error {
		if match(op) {
			return err
		}
		return nil
	}
}

// Delay lets every operation of the given kinds begin d later.
func Delay(d time.Duration, kinds OpKind) Hook {
	return func(op Op) error {
		if op.Kind&kinds != 0 {
			time.Sleep(d)
		}
		return nil
	}
}

// Chain asks hooks in their order until one returns an error.
func Chain(hooks ...Hook) Hook {
	return func(op Op) error {
		for _, hook := range hooks {
			if err := hook(op); err != nil {
				return err
			}
		}
		return nil
	}
}

// Counter counts operations by kind. Its zero value is ready; its Hook fails
// nothing.
type Counter struct {
	counts [len(kindNames)]atomic.Int64
}

// Hook counts op.
func (c *Counter) Hook(op Op) error {
	for i := range c.counts {
		if op.Kind == 1<<i {
			c.counts[i].Add(1)
		}
	}
	return nil
}

// Of returns how many operations of the given kinds have begun.
func (c *Counter) Of(kinds OpKind) int64 {
	var sum int64
	for i := range c.counts {
		if kinds&(1<<i) != 0 {
			sum += c.counts[i].Load()
		}
	}
	return sum
}

// PowerCut cuts the power of m in place of the n-th operation of the given kinds,
// counting from 1: that operation and all later ones fail with ErrDead. The
// function it returns beside the hook gives the drive as the cut left it, or nil
// if it has not come to that.
func PowerCut(m *Memory, n int64, kinds OpKind) (Hook, func() *Memory) {
	return endAt(n, kinds, m.Crash)
}

// Kill is PowerCut for a process that is killed: what was written stays.
func Kill(m *Memory, n int64, kinds OpKind) (Hook, func() *Memory) {
	return endAt(n, kinds, m.KillProcess)
}

func endAt(n int64, kinds OpKind, end func() *Memory) (Hook, func() *Memory) {
	var seen atomic.Int64
	var left atomic.Pointer[Memory]
	hook := func(op Op) error {
		if op.Kind&kinds != 0 && seen.Add(1) == n {
			left.Store(end())
		}
		return nil // the dead drive answers
	}
	return hook, left.Load
}
