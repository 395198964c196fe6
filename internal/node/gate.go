package node

import "sync/atomic"

// gate lets the writes of a bucket in, and shuts when the bucket is deleted.
//
// Without it a write that found the bucket there could commit after the bucket
// was found empty and deleted, and show up in a later bucket of the same name. So
// a delete first shuts the gate, which works only while no write is inside, then
// looks whether the bucket is empty, and then deletes it. A shut gate opens again
// only when it is certain that the delete did not happen and will not.
//
// A gate belongs to one life of a bucket, from its making to its deletion, in one
// node. Several nodes will need to agree before one shuts.
type gate struct{ state atomic.Int64 } // the number of writes inside, or shut

const shut = -1

// enter lets a write in, unless the gate is shut.
func (g *gate) enter() bool {
	for {
		inside := g.state.Load()
		if inside == shut {
			return false
		}
		if g.state.CompareAndSwap(inside, inside+1) {
			return true
		}
	}
}

func (g *gate) leave() { g.state.Add(-1) }

// shut keeps writes out, if none is inside. It reports whether the gate is shut,
// and whether it was before.
func (g *gate) shut() (now, before bool) {
	if g.state.CompareAndSwap(0, shut) {
		return true, false
	}
	before = g.state.Load() == shut
	return before, before
}

func (g *gate) reopen() { g.state.CompareAndSwap(shut, 0) }
