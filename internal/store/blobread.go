package store

import (
	"encoding/binary"
	"hash/crc32"
	"io"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// openBlobs returns a reader over a record's extents. The descriptor is the
// reader's own: the kernel keeps a position in it.
func (d *drive) openBlobs(p *place, name object.Name, r object.Range, always bool) (object.Reader, error) {
	b, err := d.describeBlobs(p, name, r, always)
	if err != nil {
		return nil, err
	}
	if err := b.begin(); err != nil {
		b.Close() //nolint:errcheck // nothing to lose
		return nil, err
	}
	return b, nil
}

// describeBlobs returns a reader that has read nothing but the record.
func (d *drive) describeBlobs(p *place, name object.Name, r object.Range, always bool) (*blobReader, error) {
	f, err := d.files.acquire(p.pack)
	if err != nil {
		return nil, err
	}
	b := &blobReader{drive: d, source: f, location: p.location(), always: always, spot: spot{p.pack, p.offset}}
	if always || !d.blobs.idle.take(b.spot, &b.openBlob) {
		b.openBlob = openBlob{removals: d.blobs.idle.now()}
	}
	if err := b.describe(p, name, r); err != nil {
		b.Close() //nolint:errcheck // nothing to lose
		return nil, err
	}
	return b, nil
}

func (b *blobReader) describe(p *place, name object.Name, r object.Range) (err error) {
	if b.rec == nil {
		if b.rec, err = b.source.Head(b.location); err != nil {
			return err
		}
	}
	if err := p.names(b.rec, name); err != nil {
		return err
	}
	b.offset, b.length, err = r.Resolve(b.rec.Size)
	b.at = b.offset
	return err
}

func (b *blobReader) begin() (err error) {
	if !b.trusted() {
		if err := b.loadTable(); err != nil {
			return err
		}
	}
	// Open the file now: a record that lost its blob is seen before an answer
	// begins, and a delete does not disturb the reader.
	if err := b.pin(); err != nil {
		return err
	}
	if b.length > 0 {
		_, err = b.open()
	}
	return err
}

// pin keeps the files there that are not opened yet, if there are several to be read.
func (b *blobReader) pin() error {
	first, last, start := 0, 0, int64(0)
	for i, x := range b.rec.Extents {
		if start += x.Length; start <= b.offset {
			first = i + 1
		}
		if start-x.Length < b.end() {
			last = i + 1
		}
	}
	if last-first < 2 {
		return nil
	}
	b.pinned = b.rec.Extents[first:last]
	b.drive.blobs.pin(b.pinned)
	// They may have gone before. But not if the record still counts.
	if e, ok, err := b.drive.get(b.rec.Name); err != nil {
		return err
	} else if !ok || e.Version != b.rec.Version {
		return errMoved
	}
	return nil
}

// blobReader reads the extents of one object one after the other.
type blobReader struct {
	drive          *drive
	source         *packFile // where the record is, kept open
	location       pack.Location
	spot           spot
	table          []byte // checksums of all blocks; nil if the kernel may move the bytes
	offset, length int64
	at             int64 // in the object
	always         bool
	failed         bool
	pinned         []pack.Extent

	openBlob
	block []byte // verified bytes not yet given out
	buf   []byte // that block lies in
}

func (b *blobReader) Info() object.Info { return b.rec.Info() }

func (b *blobReader) Bounds() (offset, length int64) { return b.offset, b.length }

func (b *blobReader) end() int64 { return b.offset + b.length }

// position is a place in an extent.
type position struct {
	pack.Extent
	offset     int64 // from the beginning of the extent
	firstBlock int64 // number of the extent's first block in the table
}

// find returns where the object's byte at lies.
func (b *blobReader) find(at int64) position {
	var block int64
	for _, x := range b.rec.Extents {
		if at < x.Length {
			return position{Extent: x, offset: at, firstBlock: block}
		}
		at -= x.Length
		block += blocks(x.Length)
	}
	return position{}
}

func blocks(length int64) int64 { return (length + BlockSize - 1) / BlockSize }

// trusted reports whether all bytes asked for have been verified since the start.
func (b *blobReader) trusted() bool {
	if b.always {
		return false
	}
	var start int64 // of the extent in the object
	for _, x := range b.rec.Extents {
		from, to := max(0, b.offset-start), min(x.Length, b.end()-start)
		if from < to && !b.drive.blobs.checked.covers(x.Blob, from/BlockSize, blocks(to)) {
			return false
		}
		start += x.Length
	}
	return true
}

func (b *blobReader) open() (position, error) {
	p := b.find(b.at)
	return p, b.openAt(p)
}

func (b *blobReader) openAt(p position) error {
	if b.file != nil && b.blob == p.Blob {
		return nil
	}
	b.closeFile()
	file, err := b.drive.fs.Open(blobName(p.Blob))
	if err != nil {
		if ignoreMissing(err) == nil {
			return object.Errorf(object.NotFound, "blob %016x is missing", p.Blob)
		}
		return object.Errorf(object.Unavailable, "%w", err)
	}
	b.file, b.blob, b.seek = file, p.Blob, 0
	return nil
}

func (b *blobReader) closeFile() {
	if b.file != nil {
		b.file.Close() //nolint:errcheck // opened for reading
		b.file = nil
	}
}

// Close frees the reader.
func (b *blobReader) Close() error {
	if b.file != nil && !b.failed && b.drive.blobs.idle.keep(b.spot, b.openBlob) {
		b.openBlob = openBlob{}
	}
	b.closeFile()
	b.drive.blobs.unpin(b.pinned)
	b.pinned = nil
	if b.source != nil {
		b.drive.files.release(b.source)
		b.source = nil
	}
	b.drive.store.buffers.put(b.buf)
	b.buf, b.block = nil, nil
	return nil
}

// plain returns where bytes of the object lie in the file that is then open, if they
// lie in one, for a caller who knows their checksum. The reader does not move, and
// opens no second file: others may be reading from the first.
func (b *blobReader) plain(offset, length int64) (position, bool) {
	p := b.find(offset)
	if offset < 0 || length <= 0 || p.offset+length > p.Length || (b.file != nil && b.blob != p.Blob) {
		return p, false
	}
	return p, b.openAt(p) == nil
}

// Read gives out verified bytes.
func (b *blobReader) Read(p []byte) (int, error) {
	if err := b.fill(); err != nil {
		return 0, err
	}
	n := copy(p, b.block)
	b.block = b.block[n:]
	b.at += int64(n)
	return n, nil
}

// WriteTo sends trusted bytes from the file, by the kernel alone if w is a
// socket, and others through memory, verified.
func (b *blobReader) WriteTo(w io.Writer) (n int64, err error) {
	for b.at < b.end() {
		if b.table == nil {
			var sent int64
			sent, err = b.send(w)
			n += sent
		} else if err = b.fill(); err == nil {
			var wrote int
			wrote, err = w.Write(b.block)
			n += int64(wrote)
			b.at += int64(wrote)
			b.block = b.block[wrote:]
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// send moves the rest of one extent.
func (b *blobReader) send(w io.Writer) (int64, error) {
	p, err := b.open()
	if err != nil {
		return 0, b.broken(err)
	}
	want := min(p.Length-p.offset, b.end()-b.at)
	var n int64
	if file, ok := b.file.(disk.Opened); ok {
		f := file.OSFile()
		if start := p.Offset + p.offset; start != b.seek {
			if b.seek, err = f.Seek(start, io.SeekStart); err != nil {
				return 0, b.broken(err)
			}
		}
		n, err = io.CopyN(w, f, want)
		b.seek += n
	} else {
		n, err = io.Copy(w, io.NewSectionReader(b.file, p.Offset+p.offset, want))
	}
	b.at += n
	if err == io.EOF || (err == nil && n < want) {
		b.drive.blobs.checked.forget(p.Blob)
		return n, b.broken(object.Errorf(object.Corrupt, "blob %016x ends too early", p.Blob))
	}
	return n, err
}

// fill reads and verifies the blocks at the current place, unless there are
// bytes left.
func (b *blobReader) fill() error {
	if len(b.block) > 0 {
		return nil
	}
	if b.at >= b.end() {
		return io.EOF
	}
	if b.table == nil {
		if err := b.loadTable(); err != nil {
			return b.broken(err)
		}
	}
	p, err := b.open()
	if err != nil {
		return b.broken(err)
	}
	const most = 4 * BlockSize
	if b.buf == nil {
		b.buf = b.drive.store.buffers.get(most)
	}
	first := p.offset / BlockSize
	from := first * BlockSize
	length := min(p.Length-from, most, blocks(p.offset+b.end()-b.at)*BlockSize-from)
	buf := b.buf[:length]
	if n, err := b.file.ReadAt(buf, p.Offset+from); int64(n) < length {
		if err == io.EOF {
			err = object.Errorf(object.Corrupt, "blob %016x ends too early", p.Blob)
		}
		return b.broken(err)
	}
	for i := int64(0); i*BlockSize < length; i++ {
		piece := buf[i*BlockSize : min(length, (i+1)*BlockSize)]
		want := binary.LittleEndian.Uint32(b.table[4*(p.firstBlock+first+i):])
		if crc32.ChecksumIEEE(piece) != want {
			b.drive.blobs.checked.forget(p.Blob)
			return b.broken(object.Errorf(object.Corrupt, "blob %016x: checksum of block %d does not match", p.Blob, first+i))
		}
	}
	b.drive.blobs.checked.mark(p.Blob, first, first+blocks(length), blocks(p.Length))
	b.block = buf[p.offset-from:]
	if rest := b.end() - b.at; int64(len(b.block)) > rest {
		b.block = b.block[:rest]
	}
	return nil
}

// loadTable reads the checksums of the blocks.
func (b *blobReader) loadTable() (err error) {
	_, b.table, err = b.source.Read(b.location, nil)
	return err
}

func (b *blobReader) broken(err error) error {
	b.failed = true
	return b.drive.store.readFailed(b.drive, b.rec.Name, err)
}
