package dataset

import (
	"context"
	"encoding/binary"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/order"
)

// Mixing says how well a shuffle policy mixes a version.
type Mixing struct {
	Policy  order.Policy
	Quality order.Quality
	Chunks  uint64 // that are in use at a time
}

// Policies reads shuffle policies: none, full or window:SIZE.
func Policies(texts []string) (all []order.Policy, err error) {
	for _, text := range texts {
		policy, err := order.ParsePolicy(text)
		if err != nil {
			return nil, err
		}
		all = append(all, policy)
	}
	return all, nil
}

// Mix finds out how many different classes the batches of an epoch have under each
// policy: on average and in the worst batch. The classes are those of a column; if it
// is negative, the samples are taken for sorted by so many classes, which is the
// hardest case there is.
func (v *Version) Mix(ctx context.Context, policies []order.Policy, column int, classes, batch uint64) ([]Mixing, error) {
	bytes, err := v.Bytes(ctx)
	if err != nil {
		return nil, err
	}
	of := order.Ranges(uint64(v.Len()), classes)
	if column >= 0 {
		if of, err = v.classes(ctx, column); err != nil {
			return nil, err
		}
	}
	hash := v.Hash()
	var all []Mixing
	for _, policy := range policies {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o, err := order.New(order.Spec{
			Dataset: binary.LittleEndian.Uint64(hash[:]), Samples: uint64(v.Len()), Bytes: uint64(bytes), Chunk: uint64(v.Info().ChunkSamples), Policy: policy,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, Mixing{policy, o.Quality(of, batch, 1000), o.Width()})
	}
	return all, nil
}

// classes reads the class of every sample. Those that have none are a class too.
func (v *Version) classes(ctx context.Context, column int) (order.Classes, error) {
	names, err := v.Classes(column)
	if err != nil {
		return order.Classes{}, err
	}
	of := make([]uint32, v.Len())
	sizes := make([]uint64, len(names)+1)
	for i := range of {
		if i&0xfff == 0 && ctx.Err() != nil {
			return order.Classes{}, ctx.Err()
		}
		value, err := v.Value(i, column)
		if err != nil {
			return order.Classes{}, err
		}
		if of[i] = uint32(value.Int); value.Missing {
			of[i] = uint32(len(names))
		}
		sizes[of[i]]++
	}
	return order.Classes{Sizes: sizes, Of: func(sample uint64) uint64 { return uint64(of[sample]) }}, nil
}

// ClassColumn returns the number of the column of classes of that name, or of the
// first one if the name is empty; -1 if there is none.
func (v *Version) ClassColumn(name string) int {
	for i, c := range v.Columns() {
		if c.Type == manifest.Class && (name == "" || c.Name == name) {
			return i
		}
	}
	return -1
}
