// Package dataset makes versions of datasets, and reads, verifies, exports and
// removes them: what `penstock dataset` does. docs/internals/datasets.md says how a
// version lies in its place, docs/guide/datasets.md how it is used.
//
// A Place is where datasets live: a bucket, or a directory that needs no node to be
// read. An Origin is where samples come from: a tree of files or the objects under
// a prefix, each of them a field of a sample, or each of them a shard already.
//
//	Origin -> listing -> what has changed -> plan -> packers -> shards
//	                                                     |
//	                                     manifest <- collector -> publish
//
// The listing has all names and sizes, some 50 bytes a file. From it the plan fixes
// which sample comes in which shard, whoever fills it and when. Packers fill a shard
// each, at the same time; a megabyte of content is in memory for each of them.
//
// Nothing is seen of a version before it is published. What a run left that was
// killed is taken over by the next one where that is safe; resume.go says when.
//
// All functions may be called concurrently. Two that write the same version get in
// each other's way: one of them fails and changes nothing that was published.
package dataset

import (
	"time"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// Options say how a version is made. Name must be given; the zero value of the rest
// is the usual way.
type Options struct {
	Name      string
	ShardSize int64 // about this many bytes a shard; zero means 64 MiB
	ChunkSize int64 // about this many bytes of samples a chunk; zero means 4 MiB

	Seed      uint64 // of the permutation of the samples that are written
	KeepOrder bool   // do not permute
	Repack    bool   // write all samples anew, not only what has changed

	Skip       bool // leave out samples that have a problem; otherwise nothing is published
	AllowEmpty bool // an empty file is no problem
	Follow     bool // take the files that symbolic links lead to; otherwise links are skipped

	ClassFromFolder bool              // a column cls with the first element of a sample's path
	Columns         []manifest.Column // fields whose content becomes a column

	Input   Input  // what the files of the origin are
	Record  Record // how they are cut, if they are Flat
	Records bool   // write shards of bare records, not tars

	Workers int // shards that are filled at the same time; zero means four a processor, 32 at most

	// Problem is told about each file that cannot be part of the dataset or was
	// skipped. Progress is told several times a second how far the work is. They are
	// never called at the same time.
	Problem  func(Problem)
	Progress func(State)

	now func() time.Time // for tests
}

// Input says what the files of an origin are.
type Input string

// What the files of an origin may be.
const (
	Auto     Input = ""         // Tar or TFRecord if all of them are called so, otherwise Files
	Files    Input = "files"    // fields of samples
	Tar      Input = "tar"      // WebDataset's shards, taken as they are
	TFRecord Input = "tfrecord" // TensorFlow's, taken as they are
	Flat     Input = "flat"     // records one behind the other, taken as they are
)

// Problem is a file that is not part of the dataset.
type Problem struct {
	Path    string // of the file, or BUCKET/KEY
	Err     error  // why
	Skipped bool   // it is not meant to be: a link, a hidden file
}

// Report says what Create has done.
type Report struct {
	Version   uint64
	Published bool  // false: nothing has changed since the last version, which Version is
	Samples   int64 // in the version
	Bytes     int64 // of fields in the version
	Added     int64 // samples that the last version did not have
	Changed   int64 // samples that it had with other content
	Removed   int64 // samples that it had and this one has not
	Kept      int64 // samples that stay where they are
	Shards    int64 // that were written
	Reused    int64 // shards that a run before had written, and that were not written again
	Taken     int64 // shards that were taken as they were found, where they lie
	Problems  int64 // files that cannot be part of it
	Skipped   int64 // files that are not meant to be
	Elapsed   time.Duration
}

// State says how far Create is.
type State struct {
	Doing        string // "listing", "comparing", "packing", "indexing", "publishing"
	Files        int64  // seen so far, while listing
	Samples      int64  // done of this step
	Bytes        int64
	TotalSamples int64 // zero: not known
	TotalBytes   int64
	Elapsed      time.Duration
}

// Validate reports as Invalid what makes no sense.
func (o *Options) Validate() error {
	probe := manifest.Options{Info: manifest.Info{Name: o.Name, ChunkSamples: 1}, Columns: o.columns()}
	switch err := probe.Validate(); {
	case err != nil:
		return err
	case o.ShardSize < 0 || o.ChunkSize < 0 || o.Workers < 0:
		return invalid("sizes and numbers must not be negative")
	}
	return o.Record.validate(o.Input)
}

// class is the column that ClassFromFolder makes.
const class = "cls"

// columns returns the columns that are asked for, the class from the folder first.
func (o *Options) columns() []manifest.Column {
	var all []manifest.Column
	if o.ClassFromFolder {
		all = append(all, manifest.Column{Name: class, Type: manifest.Class})
	}
	return append(all, o.Columns...)
}

func invalid(format string, args ...any) error {
	return object.Errorf(object.Invalid, format, args...)
}
