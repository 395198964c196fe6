package order

// Classes says what a good batch has many different ones of.
type Classes struct {
	Of    func(sample uint64) uint64 // below len(Sizes)
	Sizes []uint64                   // samples of each class
}

// Ranges pretends that the samples are sorted by class, as many datasets are that
// were made of directories: each class is a range of consecutive samples. It is the
// hardest case for a shuffle that does not reach everywhere, and needs no labels.
func Ranges(samples, classes uint64) Classes {
	classes = min(max(classes, 1), samples)
	sizes := make([]uint64, classes)
	var each, longer uint64
	if classes > 0 {
		each, longer = samples/classes, samples%classes
	}
	for class := range sizes {
		sizes[class] = each
		if uint64(class) < longer {
			sizes[class]++
		}
	}
	return Classes{Sizes: sizes, Of: func(sample uint64) uint64 {
		if first := longer * (each + 1); sample >= first {
			return longer + (sample-first)/each
		}
		return sample / (each + 1)
	}}
}

// Quality says how many different classes there are in a batch.
type Quality struct {
	Batches uint64  // that were looked at
	Mean    float64 // classes in a batch
	Worst   uint64  // in the batch that has the fewest
	Full    float64 // what a batch drawn from all samples has on average
}

// Quality looks at whole batches of the order, all of them or, if there are more than
// limit, as many as that: the first and the last, where shuffles are at their worst,
// and others spread over the epoch. No limit is 0. If there is no whole batch, all
// samples are one.
func (o *Order) Quality(classes Classes, batch, limit uint64) Quality {
	batch = min(batch, o.samples)
	if batch == 0 {
		return Quality{}
	}
	all := o.samples / batch
	quality := Quality{Batches: all, Full: expected(classes.Sizes, o.samples, batch)}
	if limit > 0 {
		quality.Batches = min(all, max(limit, 2))
	}
	count := counter{classes: classes, seen: make([]uint64, len(classes.Sizes)), buffer: make([]uint64, min(batch, 4096))}
	var sum uint64
	for i := range quality.Batches {
		distinct := count.distinct(o, chosen(i, quality.Batches, all)*batch, batch)
		sum += distinct
		if i == 0 || distinct < quality.Worst {
			quality.Worst = distinct
		}
	}
	quality.Mean = float64(sum) / float64(quality.Batches)
	return quality
}

// chosen is the i-th of so many batches out of all: one in each of as many equal
// stretches, anywhere in it, so that no period of the order can hide in between.
func chosen(i, batches, all uint64) uint64 {
	each, longer := all/batches, all%batches
	first := i*each + min(i, longer)
	if i < longer {
		each++
	}
	switch i {
	case 0:
		return 0
	case batches - 1:
		return all - 1
	}
	return first + mix(i+golden)%each
}

// counter counts the classes of one batch after the other.
type counter struct {
	classes Classes
	seen    []uint64 // by class: the last batch that had it
	batch   uint64
	buffer  []uint64
}

func (c *counter) distinct(o *Order, position, batch uint64) (distinct uint64) {
	c.batch++
	for end := position + batch; position < end; {
		samples := c.buffer[:min(uint64(len(c.buffer)), end-position)]
		o.Read(samples, position)
		for _, sample := range samples {
			if class := c.classes.Of(sample); c.seen[class] != c.batch {
				c.seen[class] = c.batch
				distinct++
			}
		}
		position += uint64(len(samples))
	}
	return distinct
}

// expected is the mean number of classes in a batch drawn from all samples: each
// class counts by the chance that the batch does not miss it.
func expected(sizes []uint64, samples, batch uint64) (sum float64) {
	known := make(map[uint64]float64) // classes often have few different sizes
	for _, size := range sizes {
		chance, ok := known[size]
		if !ok {
			chance = 1 - missed(size, samples, batch)
			known[size] = chance
		}
		sum += chance
	}
	return sum
}

// missed is the chance that none of so many draws, without putting back, hits one of
// size among all samples. Draws and hits can change places: the fewer are counted.
func missed(size, samples, batch uint64) float64 {
	few, many := min(size, batch), max(size, batch)
	chance := 1.0
	for i := range few {
		if samples-i <= many || chance == 0 {
			return 0
		}
		chance *= float64(samples-many-i) / float64(samples-i)
	}
	return chance
}
