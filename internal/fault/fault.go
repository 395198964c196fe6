// Package fault makes drives fail on purpose. Faults are values: a test builds
// the drive it wants and hands it to the code under test as a disk.FS.
//
// Memory is a drive in memory that knows what is durable and what is not. Its
// Crash answers with the drive as a power cut at this moment would leave it, its
// KillProcess with what a killed process would leave. It can also be small, out
// of inodes or read-only.
//
// Inject puts a Hook before each operation of any disk.FS, a real directory
// included. The hook sees the operations in order and with numbers, so that a
// test can fail the n-th one for all n, delay some, tear a write, flip bits in
// what is read, or cut the power between any two.
//
// Everything may be called concurrently. The package is for tests, starts no
// goroutines and imports nothing of the engine but package disk. With one
// goroutine at work the same seed gives the same faults.
package fault

import "strings"

// OpKind is a kind of operation on a drive. Kinds are bits: a set of kinds is
// their union.
type OpKind uint32

// The kinds of operation. Closing a file or a lock is none: it cannot fail.
const (
	OpCreate OpKind = 1 << iota
	OpOpen          // Open and OpenWrite
	OpRead          // ReadAt
	OpWrite         // WriteAt
	OpSync          // of a file
	OpTruncate
	OpAllocate
	OpSize
	OpRename
	OpRemove
	OpMkdir // MkdirAll
	OpReadDir
	OpSyncDir
	OpUsage
	OpLock

	// AnyOp is every kind.
	AnyOp OpKind = 1<<iota - 1
	// Mutations are the kinds that change the drive or make a change durable:
	// the places between which a power cut makes a difference.
	Mutations = OpCreate | OpWrite | OpSync | OpTruncate | OpAllocate | OpRename | OpRemove | OpMkdir | OpSyncDir
)

var kindNames = [...]string{
	"create", "open", "read", "write", "sync", "truncate", "allocate", "size",
	"rename", "remove", "mkdir", "readdir", "syncdir", "usage", "lock",
}

// String returns the names of the kinds in the set, joined by "|".
func (k OpKind) String() string {
	var names []string
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// Op is one operation, as a Hook sees it before it is done.
type Op struct {
	N       int64 // its number on this drive, from 1; unique, and in the order in which operations begin
	Kind    OpKind
	Name    string // the file or directory; the old name of a rename
	NewName string // of a rename
	Offset  int64  // of a read or write
	Length  int64  // of a read or write; the new size for truncate and allocate
}

// Hook is asked before each operation and may sleep to delay it. If it returns
// nil the operation takes place. A *Short or a *Flip changes the operation as it
// says; any other error is the operation's result, and nothing is done. A hook is
// called from many goroutines at once.
type Hook func(Op) error
