package s3api

import (
	"encoding/base64"
	"encoding/hex"
	"hash"
	"io"
	"math"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

// partNumber reads which part a request is about.
func (c *call) partNumber() (int, error) {
	text, _ := c.param("partNumber")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > node.MaxParts {
		return 0, faultf(invalidArgument, "Part number must be an integer between 1 and %d, inclusive", node.MaxParts)
	}
	return n, nil
}

// uploadPart stores the body as a part of an upload.
func (a *API) uploadPart(c *call) error {
	number, err := c.partNumber()
	if err != nil {
		return err
	}
	u, err := c.upload()
	if err != nil {
		return err
	}
	if err := c.refuseUnsupported(); err != nil {
		return err
	}
	announced, wanted := c.signed.Announced(), u.sum.algorithm
	if announced != checksum.None && wanted != checksum.None && announced != wanted {
		return faultf(invalidRequest, "Checksum Type mismatch occurred, expected checksum Type: %s, actual checksum Type: %s",
			strings.ToLower(wanted.String()), strings.ToLower(announced.String()))
	}
	extra := newExtra(wanted, announced)
	c.R.Body = struct {
		io.Reader
		io.Closer
	}{extra.reader(c.R.Body), c.R.Body}
	b, err := c.content()
	if err != nil {
		return err
	}
	defer b.Close()
	opts := object.PutOptions{SizeHint: max(0, c.signed.Length), Finish: func() (object.Finish, error) {
		end, err := b.finish()
		extra.add(&end)
		return end, err
	}}
	info, err := a.node.PutPart(c.R.Context(), u.Upload, number, b, opts)
	c.BodyDone()
	if err != nil {
		return noUpload(err)
	}
	h := c.Header()
	h["Etag"] = c.Value(`"` + info.ETag + `"`)
	if s, ok := checksumOf(&info); ok && (announced != checksum.None || wanted != checksum.None) {
		h[s.algorithm.Key()] = c.Value(s.value)
	}
	return nil
}

// noUpload says that the upload ended while a part of it was on its way.
func noUpload(err error) error {
	if object.Is(err, object.NotFound) {
		return fault(noSuchUpload)
	}
	return err
}

// extra computes the checksum that an upload wants of its parts, where the client does
// not send it. The CRC32 the store knows.
type extra struct {
	algorithm checksum.Algorithm
	hash      hash.Hash // nil if it is not needed
}

func newExtra(wanted, announced checksum.Algorithm) extra {
	e := extra{algorithm: wanted}
	if wanted != checksum.None && wanted != checksum.CRC32 && announced == checksum.None {
		e.hash = wanted.New()
	}
	return e
}

func (e extra) reader(r io.Reader) io.Reader {
	if e.hash == nil {
		return r
	}
	return io.TeeReader(r, e.hash)
}

func (e extra) add(end *object.Finish) {
	if e.hash != nil {
		end.Metadata = map[string]string{metaChecksum: checksumMeta(sum{algorithm: e.algorithm, value: checksum.Encode(e.hash.Sum(nil))})}
	}
}

// copyPart stores a range of an object as a part of an upload.
func (a *API) copyPart(c *call) error {
	number, err := c.partNumber()
	if err != nil {
		return err
	}
	name, err := c.copySource()
	if err != nil {
		return err
	}
	wanted, err := parseCopyRange(c.amz("X-Amz-Copy-Source-Range"))
	if err != nil {
		return err
	}
	u, err := c.upload()
	if err != nil {
		return err
	}
	var from, info object.Info
	err = c.steadily(func() error {
		if from, err = c.source(name); err == nil {
			info, err = c.copyRange(&u, number, &from, wanted)
		}
		return err
	})
	c.BodyDone()
	if err != nil {
		return noUpload(err)
	}
	c.showSource(&from)
	x := newXML("CopyPartResult")
	x.time("LastModified", info.Modified)
	x.etag(info.ETag)
	if s, ok := checksumOf(&info); ok && u.sum.algorithm != checksum.None {
		x.checksum(s)
	}
	return c.send(x)
}

func (c *call) copyRange(u *upload, number int, from *object.Info, wanted object.Range) (object.Info, error) {
	if wanted.Length > 0 && wanted.Offset+wanted.Length > from.Size {
		return object.Info{}, &object.Error{Kind: object.Invalid, Err: &object.RangeError{Range: wanted, Size: from.Size}}
	}
	r, err := c.openSource(from, wanted)
	if err != nil {
		return object.Info{}, err
	}
	defer r.Close()
	_, length := r.Bounds()
	if length > maxPut {
		return object.Info{}, faultf(invalidRequest, "The specified copy source is larger than the maximum allowable size for a copy source: %d", int64(maxPut))
	}
	extra := newExtra(u.sum.algorithm, checksum.None)
	b := newDigester(&c.api.pieces, extra.reader(r), length, true)
	defer b.Close()
	return c.api.node.PutPart(c.R.Context(), u.Upload, number, b, object.PutOptions{SizeHint: length, Finish: func() (object.Finish, error) {
		end := object.Finish{ETag: hex.EncodeToString(b.sum())}
		extra.add(&end)
		return end, nil
	}})
}

// parseCopyRange reads bytes=FIRST-LAST, the only form a copy may have.
func parseCopyRange(text string) (r object.Range, err error) {
	if text == "" {
		return r, nil
	}
	rest, ok := strings.CutPrefix(text, "bytes=")
	from, to, dash := strings.Cut(rest, "-")
	first, err := strconv.ParseUint(from, 10, 63)
	last, err2 := strconv.ParseUint(to, 10, 63)
	if !ok || !dash || err != nil || err2 != nil || first > last || last == math.MaxInt64 {
		return r, faultf(invalidArgument, "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy")
	}
	return object.Range{Offset: int64(first), Length: int64(last - first + 1)}, nil
}

// listParts lists the parts of an upload that are there.
func (a *API) listParts(c *call) error {
	after, _ := c.param("part-number-marker")
	limit, _ := c.param("max-parts")
	shown, err := parsePartRange(after, limit)
	if err != nil {
		return err
	}
	u, err := c.upload()
	if err != nil {
		return err
	}
	parts, more, err := a.partsOf(c, &u, shown)
	if err != nil {
		return err
	}
	last := shown.after
	if len(parts) > 0 {
		last = node.PartNumber(parts[len(parts)-1])
	}
	x := newXML("ListPartsResult")
	x.text("Bucket", c.bucket)
	x.text("Key", c.key)
	x.text("UploadId", node.FormatID(u.ID))
	x.uploadFacts(c, &u)
	x.number("PartNumberMarker", int64(shown.after))
	x.number("NextPartNumberMarker", int64(last))
	x.number("MaxParts", int64(shown.limit))
	x.boolean("IsTruncated", more)
	for _, part := range parts {
		x.begin("Part")
		x.number("PartNumber", int64(node.PartNumber(part)))
		x.time("LastModified", part.Modified)
		x.etag(part.ETag)
		x.number("Size", part.Size)
		if s, ok := checksumOf(&part); ok && u.sum.algorithm != checksum.None {
			x.checksum(s)
		}
		x.end()
	}
	return c.send(x)
}

// partsOf returns the parts of an upload, and whether there are more. Those with other
// checksums than the store's are looked up one by one, as no listing has them.
func (a *API) partsOf(c *call, u *upload, shown partRange) (parts []object.Info, more bool, err error) {
	ctx := c.R.Context()
	if shown.limit == 0 || shown.after >= node.MaxParts {
		return nil, false, nil
	}
	for part, err := range a.node.Parts(ctx, u.Upload, shown.after, shown.limit+1) {
		if err != nil {
			return nil, false, err
		}
		if len(parts) == shown.limit {
			return parts, true, nil
		}
		if u.sum.algorithm != checksum.None && u.sum.algorithm != checksum.CRC32 {
			if part, err = a.node.Part(ctx, u.Upload, node.PartNumber(part)); object.Is(err, object.NotFound) {
				continue
			} else if err != nil {
				return nil, false, err
			}
		}
		parts = append(parts, part)
	}
	return parts, false, nil
}

// partCount returns how many parts an object was brought in, as its ETag says; zero if
// it came in one piece. The dash of a native ETag has more digits behind it.
func partCount(etag string) int {
	digest, count, _ := strings.Cut(etag, "-")
	n, err := strconv.Atoi(count)
	if len(digest) != 32 || len(count) > 5 || err != nil || n < 1 || n > node.MaxParts {
		return 0
	}
	return n
}

// partSizes returns the sizes of the parts that an object was brought in, nil if it
// came in one piece. The store leaves out an empty part, which only the last can be.
func partSizes(info *object.Info) []int64 {
	n := partCount(info.ETag)
	switch len(info.Parts) {
	case n:
		return info.Parts
	case n - 1:
		return append(info.Parts[:n-1:n-1], 0)
	}
	return nil
}

// partSums returns the checksums of the parts of an object, as far as they are kept.
func partSums(info *object.Info) []sum {
	whole, ok := checksumOf(info)
	raw, err := base64.RawURLEncoding.DecodeString(info.Metadata[metaParts])
	size := whole.algorithm.Size()
	if !ok || err != nil || size == 0 {
		return nil
	}
	var sums []sum
	for ; len(raw) >= size; raw = raw[size:] {
		sums = append(sums, sum{algorithm: whole.algorithm, composite: whole.composite, value: checksum.Encode(raw[:size])})
	}
	return sums
}

// formatPartSums is what is kept of the checksums of parts: one behind the other, since
// there may be ten thousand.
func formatPartSums(parts []checksum.Part) string {
	var raw []byte
	for _, p := range parts {
		raw = append(raw, p.Sum...)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// partOf returns where a part of an object lies in it.
func partOf(info *object.Info, number int) (object.Range, error) {
	sizes := partSizes(info)
	if len(sizes) == 0 && number == 1 {
		return object.Range{}, nil
	}
	if number > len(sizes) {
		return object.Range{}, faultf(invalidPart, "The object has no part %d", number)
	}
	var offset int64
	for _, size := range sizes[:number-1] {
		offset += size
	}
	if sizes[number-1] == 0 && info.Size == 0 {
		return object.Range{}, nil
	}
	return object.Range{Offset: offset, Length: sizes[number-1]}, nil
}
