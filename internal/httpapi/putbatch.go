package httpapi

import (
	"hash/maphash"
	"io"
	"net/http"
	"net/url"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
	"penstock.dev/penstock/internal/wire"
)

const (
	// together is the size up to which objects of a put-batch are committed with
	// others; larger ones are stored as if they came alone.
	together = 256 << 10

	// roundBytes and roundObjects bound what is held in memory until it is committed.
	roundBytes   = 4 << 20
	roundObjects = 8192

	maxPutObjects  = 1 << 20
	maxPutFailures = 10000
)

// incoming is an object of a put-batch, before its bytes.
type incoming struct {
	key, contentType string
	size             int64
	crc              *uint32 // what the bytes must have, if known
	refused          error
}

// uploads are the objects of a put-batch: frames or a tar.
type uploads interface {
	next() (incoming, error) // io.EOF behind the last one
	io.Reader                // the current one's bytes, up to io.EOF
}

// putBatch stores many objects.
func (a *API) putBatch(x *exchange) error {
	kind, err := x.contentType(wire.ObjectsType)
	if err != nil {
		return err
	}
	b := &putBatch{api: a, x: x, bucket: x.name.Bucket, prefix: x.name.Key, seed: maphash.MakeSeed(), seen: make(map[uint64]struct{})}
	switch kind {
	case wire.ObjectsType:
		b.from = &framed{r: wire.NewObjectsReader(x.Body())}
	case tarType:
		b.from = &tarred{r: shard.NewReader(x.Body())}
	default:
		return unsupported(kind, wire.ObjectsType, tarType)
	}
	err = b.run()
	x.BodyDone()
	if err != nil {
		if x.BodyErr != nil {
			return x.BodyErr
		}
		return err
	}
	return x.respond(http.StatusOK, b.out)
}

func putBatchParams(query string) (bucket, prefix string, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", object.Errorf(object.Invalid, "the parameters are badly written: %v", err)
	}
	for name, given := range values {
		switch {
		case len(given) != 1:
			return "", "", object.Errorf(object.Invalid, "parameter %.40q is given %d times", name, len(given))
		case name == "bucket":
			bucket = given[0]
		case name == "prefix":
			prefix = given[0]
		default:
			return "", "", object.Errorf(object.Invalid, "%.40q is not a parameter of put-batch; there are bucket and prefix", name)
		}
	}
	return bucket, prefix, object.ValidateBucket(bucket)
}

type putBatchJSON struct {
	Stored int          `json:"stored"`
	Bytes  int64        `json:"bytes"`
	Failed []failedJSON `json:"failed"`
}

type failedJSON struct {
	Key     string `json:"key"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// putBatch is such a request on its way: objects are gathered for a round, and
// committed together.
type putBatch struct {
	api            *API
	x              *exchange
	from           uploads
	bucket, prefix string
	round          []object.Upload
	buf            []byte // the bytes of the round, one behind the other
	out            putBatchJSON

	seed maphash.Seed
	seen map[uint64]struct{} // keys so far, by hash
}

func (b *putBatch) run() error {
	b.out.Failed = []failedJSON{}
	buf := b.api.rounds.Get().(*[]byte)
	b.buf = (*buf)[:0]
	defer func() {
		*buf = b.buf
		b.api.rounds.Put(buf)
	}()
	for {
		next, err := b.from.next()
		if err == io.EOF {
			return b.commit()
		}
		if err == nil {
			err = b.take(&next)
		}
		if err != nil {
			return err
		}
	}
}

// take reads one object. Only what ends the whole request is an error.
func (b *putBatch) take(o *incoming) error {
	if o.refused != nil {
		return b.fail(o.key, o.refused)
	}
	o.key = b.prefix + o.key
	if err := b.fresh(o.key); err != nil {
		return b.fail(o.key, err)
	}
	if b.x.eachKey {
		if err := b.x.may(b.x.route.action, object.Name{Bucket: b.bucket, Key: o.key}); err != nil {
			return b.fail(o.key, err)
		}
	}
	if o.size > together {
		return b.alone(o)
	}
	if len(b.round) == roundObjects || len(b.buf)+int(o.size) > roundBytes {
		if err := b.commit(); err != nil {
			return err
		}
	}
	start := len(b.buf)
	b.buf = b.buf[:start+int(o.size)]
	if _, err := io.ReadFull(b.from, b.buf[start:]); err != nil {
		return err
	}
	u := object.Upload{Key: o.key, ContentType: o.contentType, Bytes: b.buf[start:]}
	if o.crc != nil {
		u.CRC32, u.Checked = *o.crc, true
	}
	b.round = append(b.round, u)
	return nil
}

// fresh refuses a key that came before: of two objects with one name only one
// would be there.
func (b *putBatch) fresh(key string) error {
	hash := maphash.String(b.seed, key)
	if _, again := b.seen[hash]; again {
		return object.Errorf(object.Invalid, "the key comes twice")
	}
	if len(b.seen) == maxPutObjects {
		return object.Errorf(object.Invalid, "more than %d objects in one request", maxPutObjects)
	}
	b.seen[hash] = struct{}{}
	return nil
}

// alone stores a large object.
func (b *putBatch) alone(o *incoming) error {
	name := object.Name{Bucket: b.bucket, Key: o.key}
	_, err := b.api.node.Put(b.x.R.Context(), name, b.from, object.PutOptions{ContentType: o.contentType, SizeHint: o.size, CRC32: o.crc})
	switch {
	case b.x.BodyErr != nil:
		return b.x.BodyErr
	case err != nil:
		return b.fail(o.key, err)
	}
	b.out.Stored++
	b.out.Bytes += o.size
	return nil
}

// commit stores the round.
func (b *putBatch) commit() error {
	for i, err := range b.api.node.PutMany(b.x.R.Context(), b.bucket, b.round) {
		if err != nil {
			if err := b.fail(b.round[i].Key, err); err != nil {
				return err
			}
			continue
		}
		b.out.Stored++
		b.out.Bytes += int64(len(b.round[i].Bytes))
	}
	clear(b.round)
	b.round, b.buf = b.round[:0], b.buf[:0]
	return b.x.R.Context().Err()
}

// fail notes an object that was not stored, up to a number: then it is better to
// find out why before sending more.
func (b *putBatch) fail(key string, err error) error {
	if len(b.out.Failed) == maxPutFailures {
		return object.Errorf(object.KindOf(err), "given up: more than %d objects failed, the last one, %.80q, because %w", maxPutFailures, key, err)
	}
	err = b.api.itemError(b.x, err)
	b.out.Failed = append(b.out.Failed, failedJSON{Key: key, Kind: object.KindOf(err).String(), Message: err.Error()})
	return nil
}

// framed are objects in frames.
type framed struct {
	r   *wire.ObjectsReader
	crc uint32
}

func (f *framed) next() (incoming, error) {
	o, err := f.r.Next()
	f.crc = o.CRC32
	return incoming{key: o.Key, contentType: o.ContentType, size: o.Size, crc: &f.crc}, err
}

func (f *framed) Read(p []byte) (int, error) { return f.r.Read(p) }

// tarred are objects in a tar.
type tarred struct{ r *shard.Reader }

func (t *tarred) next() (incoming, error) {
	f, err := t.r.Next()
	if f.Refused != nil {
		return incoming{key: f.Name, refused: f.Refused}, err
	}
	return incoming{key: f.Key, size: f.Size}, err
}

func (t *tarred) Read(p []byte) (int, error) { return t.r.Read(p) }
