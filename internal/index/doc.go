// Package index is an ordered map from bytes to bytes on one disk: where a store
// remembers what it has and where it lies.
//
// It is a cache of the truth in the disk's log, and has no log of its own. Changes
// go to memory; a checkpoint makes all changes so far part of files, together with
// a state of the caller's, which says up to where in the log that is. After a crash
// the index is as the last checkpoint left it, and the caller applies again what
// the log has beyond. An index that does not verify is thrown away and built again:
// that costs a scan of the log, never data.
//
// It is not a database: no transactions, no snapshots over several calls, one
// writer. It knows nothing of objects, packs or versions, and it keeps no other
// process off its directory: the store holds the lock of the disk.
//
// # The way of the data
//
//	Apply ──> memtable ──Freeze──> frozen memtable ──Write──> run ─┐
//	                                                run ──Merge──> run
//	Get, Scan: the memtable first, then the frozen ones, then runs, newest first
//
// The memtable is a hash table for Get and a tree for Scan over memory that the
// garbage collector does not look into. Freeze puts a new one over it; Write makes
// the frozen one a run, an immutable sorted file of checksummed blocks with a
// filter and a block index at its end, which stay in memory. The file "checkpoint"
// names the runs and holds the state; replacing it is the one step that changes the
// index on disk. Merge makes one run of several. docs/internals/index.md draws the
// files and gives the figures.
//
// # Errors
//
// Every byte that comes from the disk is verified before it is believed: the
// checkpoint holds the checksum of each run's footer, the footer those of filter
// and block index, the block index that of each block. Damage is ErrDamaged, of
// kind object.Corrupt, and never a wrong answer. A drive that fails is
// object.Unavailable, with the cause in the chain. A Write or Merge that fails
// leaves everything readable and the last checkpoint in force.
//
// # Concurrency
//
// Get, Scan, Verify and Stats may be called by anyone at any time, and wait for
// nothing but the disk: they look at an immutable view, the memtables and runs of
// one moment, and hold it while they do. Apply and Freeze are the writer's, one call
// at a time, and never wait for the disk. Write and Merge run beside all of them; a
// second Write waits for the first, as does a second Merge. A run that was merged
// away is removed when a durable checkpoint no longer names it and no reader holds
// it, by the next Write, Merge or Close. No goroutine is started.
//
// # Bounds
//
// Memory is about 2 bytes a key on disk, and the memtables. The package does not
// bound the latter, because Apply cannot fail: a caller whose checkpoints fail
// watches Stats. Each run takes one descriptor; merging keeps them at about three
// for each fourfold of size, and at 24 at most in the long run.
package index
