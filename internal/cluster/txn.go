package cluster

import (
	"bytes"
	"slices"

	"penstock.dev/penstock/internal/object"
)

// The limits of a transaction. They are such that an etcd with default settings
// takes all they allow.
const (
	MaxKey   = 1 << 10 // bytes
	MaxValue = 1 << 20 // bytes
	MaxOps   = 128     // operations, and as many conditions
	MaxTxn   = 5 << 18 // bytes of all keys and values in it
)

// Txn is a transaction: if all conditions hold, all operations are done, at one
// revision. No two operations may be on the same key.
type Txn struct {
	If   []Condition
	Then []Op
}

// Condition is something that must be true of one key. Its zero Test asks for the
// revision.
type Condition struct {
	Key      string
	Test     Test
	Revision int64
	Value    []byte
}

// Test is what a Condition asks about a key.
type Test uint8

// The tests.
const (
	RevisionIs Test = iota // it was last modified at Revision; zero: it is not there
	IsPresent              // it is there
	ValueIs                // it is there and has Value
)

// IfAbsent asks that there be no such record.
func IfAbsent(key string) Condition { return Condition{Key: key} }

// IfPresent asks that there be a record.
func IfPresent(key string) Condition { return Condition{Key: key, Test: IsPresent} }

// IfValue asks that there be a record with the value.
func IfValue(key string, value []byte) Condition {
	return Condition{Key: key, Test: ValueIs, Value: value}
}

// IfUnchanged asks that the record be still the one that was read: neither put
// again, nor deleted.
func IfUnchanged(r Record) Condition { return Condition{Key: r.Key, Revision: r.Modified} }

// holds reports whether the condition is true of the current record, nil if there
// is none.
func (c Condition) holds(current *Record) bool {
	switch {
	case c.Test == IsPresent:
		return current != nil
	case c.Test == ValueIs:
		return current != nil && bytes.Equal(current.Value, c.Value)
	case current == nil:
		return c.Revision == 0
	}
	return current.Modified == c.Revision
}

// Op is one operation of a transaction: a put, unless Delete is set.
type Op struct {
	Key    string
	Value  []byte
	Lease  LeaseID // the record ends with it; zero: the record stays, and leaves a lease it had
	Delete bool
}

// Put sets the value of a key for good.
func Put(key string, value []byte) Op { return Op{Key: key, Value: value} }

// PutLeased sets the value of a key until the lease ends.
func PutLeased(key string, value []byte, lease LeaseID) Op {
	return Op{Key: key, Value: value, Lease: lease}
}

// Delete removes a key, if it is there.
func Delete(key string) Op { return Op{Key: key, Delete: true} }

// Validate reports as Invalid what no Control takes.
func (t Txn) Validate() error {
	if len(t.Then) > MaxOps || len(t.If) > MaxOps {
		return object.Errorf(object.Invalid, "a transaction of %d conditions and %d operations: at most %d of each are possible",
			len(t.If), len(t.Then), MaxOps)
	}
	size := 0
	for _, c := range t.If {
		if err := validate(c.Key, c.Value); err != nil {
			return err
		}
		if c.Test > ValueIs || c.Revision < 0 {
			return object.Errorf(object.Invalid, "the condition on %q makes no sense", c.Key)
		}
		size += len(c.Key) + len(c.Value)
	}
	seen := make(map[string]bool, len(t.Then))
	for _, op := range t.Then {
		if err := validate(op.Key, op.Value); err != nil {
			return err
		}
		if seen[op.Key] {
			return object.Errorf(object.Invalid, "two operations of one transaction are on %q", op.Key)
		}
		seen[op.Key] = true
		size += len(op.Key) + len(op.Value)
	}
	if size > MaxTxn {
		return object.Errorf(object.Invalid, "a transaction of %d bytes is larger than %d", size, MaxTxn)
	}
	return nil
}

func validate(key string, value []byte) error {
	switch {
	case key == "":
		return object.Errorf(object.Invalid, "the key of a control record is empty")
	case len(key) > MaxKey:
		return object.Errorf(object.Invalid, "the control key %.40q... of %d bytes is longer than %d", key, len(key), MaxKey)
	case len(value) > MaxValue:
		return object.Errorf(object.Invalid, "the value of %d bytes for %.40q is larger than %d", len(value), key, MaxValue)
	}
	return nil
}

// clone returns a transaction that shares no memory with the caller's.
func (t Txn) clone() Txn {
	c := Txn{If: slices.Clone(t.If), Then: slices.Clone(t.Then)}
	for i := range c.If {
		c.If[i].Value = bytes.Clone(c.If[i].Value)
	}
	for i := range c.Then {
		c.Then[i].Value = bytes.Clone(c.Then[i].Value)
	}
	return c
}
