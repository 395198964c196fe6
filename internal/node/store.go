package node

import (
	"context"
	"iter"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// Store is what a node needs of the thing that keeps its objects: *store.Store,
// or a map in memory in tests.
type Store interface {
	object.Source
	object.Sink
	object.Lister

	// OpenVerified is Open, with every byte checked as it is read.
	OpenVerified(ctx context.Context, name object.Name, r object.Range) (object.Reader, error)
	// Batch reads many objects; BatchVerified also checks what large ones are made of.
	Batch(ctx context.Context, refs []object.Ref) iter.Seq2[object.Item, error]
	BatchVerified(ctx context.Context, refs []object.Ref) iter.Seq2[object.Item, error]
	// PutMany stores objects together and returns how each fared.
	PutMany(ctx context.Context, bucket string, objects []object.Upload) []error
	// Copy makes another name for the content of src.
	Copy(ctx context.Context, dst, src object.Name, opts object.PutOptions) (object.Info, error)
	// Usage returns the number and bytes of a bucket's objects, cheaply.
	Usage(bucket string) Usage
	// Empty reports whether a bucket has no object, also none on a disk that
	// cannot be asked: then it fails.
	Empty(ctx context.Context, bucket string) (bool, error)
	// Disks returns the state of each disk.
	Disks() []Disk
	// Scrub reads and checks everything that is stored.
	Scrub(ctx context.Context, opts ScrubOptions, found func(Finding)) (ScrubReport, error)
}

// The store's words, so that doors need not know the store.
type (
	Usage         = store.Usage
	Disk          = store.DiskStatus
	ScrubOptions  = store.ScrubOptions
	ScrubProgress = store.ScrubProgress
	ScrubReport   = store.ScrubReport
	Finding       = store.Finding
)

// Disks returns the state of this node's disks.
func (n *Node) Disks() []Disk { return n.store.Disks() }

// Scrub reads and checks everything on this node's disks, reports each damage it
// finds, and returns a summary. One scrub runs at a time; another is Busy.
func (n *Node) Scrub(ctx context.Context, opts ScrubOptions, found func(Finding)) (ScrubReport, error) {
	if !n.scrubbing.CompareAndSwap(false, true) {
		return ScrubReport{}, object.Errorf(object.Busy, "a scrub is already running")
	}
	defer n.scrubbing.Store(false)
	return n.store.Scrub(ctx, opts, found)
}

// Map is the numbered list of the cluster's nodes.
type Map struct {
	Number uint32
	Nodes  []Peer
}

// Peer is one node of a map.
type Peer struct {
	Name    string
	Address string
	Weight  float64
	State   string
}

// Map returns the current map. A node alone is a cluster of one, with map 1.
func (n *Node) Map() Map {
	return Map{Number: 1, Nodes: []Peer{{Name: n.name, Address: n.address, Weight: 1, State: "ok"}}}
}
