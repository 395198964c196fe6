package s3api

import (
	"crypto/md5" //nolint:gosec // S3 defines ETags by it
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

const (
	minPart        = 5 << 20 // of all parts of an object but the last
	maxCompleteXML = 3 << 20
)

// completion is the document that says of which parts an object is to be.
type completion struct {
	XMLName xml.Name       `xml:"CompleteMultipartUpload"`
	Parts   []completePart `xml:"Part"`
}

type completePart struct {
	Number            int `xml:"PartNumber"`
	ETag              string
	ChecksumCRC32     string
	ChecksumCRC32C    string
	ChecksumCRC64NVME string
	ChecksumSHA1      string
	ChecksumSHA256    string
}

// sums returns the checksums that the client says a part has.
func (p *completePart) sums() map[checksum.Algorithm]string {
	all := map[checksum.Algorithm]string{
		checksum.CRC32: p.ChecksumCRC32, checksum.CRC32C: p.ChecksumCRC32C, checksum.CRC64NVME: p.ChecksumCRC64NVME,
		checksum.SHA1: p.ChecksumSHA1, checksum.SHA256: p.ChecksumSHA256,
	}
	maps.DeleteFunc(all, func(_ checksum.Algorithm, value string) bool { return value == "" })
	return all
}

// readCompletion reads the document. Of a number that is there twice, the last counts.
func (c *call) readCompletion() ([]completePart, error) {
	var list completion
	if err := c.readXML(&list, maxCompleteXML); err != nil {
		return nil, err
	}
	var parts []completePart
	for _, p := range list.Parts {
		last := 0
		if len(parts) > 0 {
			last = parts[len(parts)-1].Number
		}
		p.ETag = strings.ToLower(door.Unquote(strings.TrimSpace(p.ETag)))
		switch {
		case p.Number < 1 || p.Number > node.MaxParts:
			return nil, faultf(invalidArgument, "Part number must be an integer between 1 and %d, inclusive", node.MaxParts)
		case p.Number < last:
			return nil, fault(invalidPartOrder)
		case p.Number == last:
			parts[len(parts)-1] = p
		default:
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return nil, faultf(malformedXML, "You must specify at least one part")
	}
	return parts, nil
}

// completeUpload makes an object of the parts of an upload.
func (a *API) completeUpload(c *call) error {
	asked, err := c.readCompletion()
	if err != nil {
		return err
	}
	cond, err := c.writeCondition()
	if err != nil {
		return err
	}
	u, err := c.upload()
	if err != nil {
		return c.completedBefore(asked, err)
	}
	parts, err := a.partsToComplete(c, &u, asked)
	if err != nil {
		if _, gone := c.upload(); gone != nil { // another has ended it meanwhile, and its parts go after it
			return c.completedBefore(asked, gone)
		}
		return err
	}
	opts, err := c.completeOptions(&u, asked, parts)
	if err != nil {
		return err
	}
	opts.Condition = cond
	if info, done := c.made(u.ID, etagOfParts(asked)); done {
		// A node that was killed, or a connection that broke, left it so.
		if err := a.node.AbortUpload(c.R.Context(), u.Upload); err != nil {
			return err
		}
		return c.sendCompleted(&info)
	}
	info, err := a.node.CompleteUpload(c.R.Context(), u.Upload, parts, opts)
	c.BodyDone()
	if err != nil {
		return c.notCompleted(&u, asked, parts, err)
	}
	return c.sendCompleted(&info)
}

// made returns the object if it is what an upload has become.
func (c *call) made(id object.Version, etag string) (object.Info, bool) {
	info, err := c.api.node.Stat(c.R.Context(), object.Name{Bucket: c.bucket, Key: c.key})
	return info, err == nil && info.Metadata[metaUpload] == node.FormatID(id) && info.ETag == etag
}

// completedBefore answers a client that completes again what is complete, because it
// has not heard of it.
func (c *call) completedBefore(asked []completePart, err error) error {
	if info, done := c.made(c.uploadID(), etagOfParts(asked)); done {
		return c.sendCompleted(&info)
	}
	return err
}

// notCompleted finds out what is wrong: the condition, or what the client knows of the
// parts.
func (c *call) notCompleted(u *upload, asked []completePart, parts []object.Info, err error) error {
	if !object.Is(err, object.NotFound) && !object.Is(err, object.Stale) {
		return err
	}
	if _, gone := c.upload(); gone != nil {
		return c.completedBefore(asked, gone)
	}
	for _, part := range parts {
		now, err := c.api.node.Part(c.R.Context(), u.Upload, node.PartNumber(part))
		if err != nil || now.Version != part.Version {
			return badPart(u, node.PartNumber(part), part.ETag)
		}
	}
	return err
}

func badPart(u *upload, number int, etag string) error {
	f := fault(invalidPart)
	f.details = [][2]string{{"UploadId", node.FormatID(u.ID)}, {"PartNumber", strconv.Itoa(number)}, {"ETag", etag}}
	return f
}

// partsToComplete returns the parts that the client asked for, if they are what it
// thinks they are.
func (a *API) partsToComplete(c *call, u *upload, asked []completePart) ([]object.Info, error) {
	have := make(map[int]object.Info, len(asked))
	for part, err := range a.node.Parts(c.R.Context(), u.Upload, 0, 0) {
		if err != nil {
			return nil, err
		}
		have[node.PartNumber(part)] = part
	}
	parts := make([]object.Info, len(asked))
	for i, want := range asked {
		part, ok := have[want.Number]
		if !ok || part.ETag != want.ETag {
			return nil, badPart(u, want.Number, want.ETag)
		}
		sums := want.sums()
		if c.needsMore(u, sums) {
			full, err := a.node.Part(c.R.Context(), u.Upload, want.Number)
			if object.Is(err, object.NotFound) || (err == nil && full.Version != part.Version) {
				return nil, badPart(u, want.Number, want.ETag)
			}
			if err != nil {
				return nil, err
			}
			part = full
		}
		for algorithm, value := range sums {
			if known, ok := partSum(&part, algorithm); !ok || checksum.Encode(known) != value {
				return nil, badPart(u, want.Number, want.ETag)
			}
		}
		parts[i] = part
	}
	for i, part := range parts[:len(parts)-1] {
		if part.Size < minPart {
			f := fault(entityTooSmall)
			f.details = [][2]string{
				{"ProposedSize", strconv.FormatInt(part.Size, 10)},
				{"MinSizeAllowed", strconv.Itoa(minPart)},
				{"PartNumber", strconv.Itoa(asked[i].Number)},
				{"ETag", part.ETag},
			}
			return nil, f
		}
	}
	return parts, nil
}

// needsMore reports whether a listing does not tell enough of a part: it has no
// checksums but the store's own.
func (c *call) needsMore(u *upload, said map[checksum.Algorithm]string) bool {
	for algorithm := range said {
		if algorithm != checksum.CRC32 {
			return true
		}
	}
	given, _ := c.givenSum()
	for _, algorithm := range []checksum.Algorithm{u.sum.algorithm, given} {
		if algorithm != checksum.None && algorithm != checksum.CRC32 {
			return true
		}
	}
	return false
}

// partSum returns a checksum of a part, if it is known.
func partSum(part *object.Info, algorithm checksum.Algorithm) ([]byte, bool) {
	if algorithm == checksum.CRC32 {
		return binary.BigEndian.AppendUint32(nil, part.CRC32), true
	}
	s, ok := checksumOf(part)
	if !ok || s.algorithm != algorithm {
		return nil, false
	}
	value, err := algorithm.Decode(s.value)
	return value, err == nil
}

// etagOfParts is the MD5 of the parts' MD5s, with their number.
func etagOfParts(asked []completePart) string {
	h := md5.New() //nolint:gosec // S3 defines ETags by it
	for _, p := range asked {
		digest, _ := hex.DecodeString(p.ETag) // of a part that is there it is one
		h.Write(digest)                       //nolint:errcheck // never fails
	}
	return fmt.Sprintf("%x-%d", h.Sum(nil), len(asked))
}

// completeOptions returns what the object is to be described by: what was said when
// the upload began, and what is known now.
func (c *call) completeOptions(u *upload, asked []completePart, parts []object.Info) (object.PutOptions, error) {
	var size int64
	for _, part := range parts {
		size += part.Size
	}
	expected, err := parseSize(c.amz("X-Amz-Mp-Object-Size"))
	switch {
	case err != nil:
		return object.PutOptions{}, err
	case expected >= 0 && expected != size:
		return object.PutOptions{}, faultf(invalidRequest, "The provided 'x-amz-mp-object-size' header value %d does not match what was computed: %d", expected, size)
	}
	meta := maps.Clone(u.Info.Metadata)
	if meta == nil {
		meta = make(map[string]string)
	}
	delete(meta, metaChecksum)
	meta[metaUpload] = node.FormatID(u.ID)
	s, err := c.wholeSum(u, parts)
	if err != nil {
		return object.PutOptions{}, err
	}
	if s.algorithm != checksum.None {
		if s.composite || s.algorithm != checksum.CRC32 {
			meta[metaChecksum] = checksumMeta(s)
		}
		all, err := partsSummed(s.algorithm, parts)
		if err != nil {
			return object.PutOptions{}, err
		}
		meta[metaParts] = formatPartSums(all)
	}
	etag := etagOfParts(asked)
	return object.PutOptions{
		ContentType: u.Info.ContentType, Metadata: meta, SizeHint: size,
		Finish: func() (object.Finish, error) { return object.Finish{ETag: etag}, nil },
	}, nil
}

// givenSum returns the checksum that the client says the object will have.
func (c *call) givenSum() (checksum.Algorithm, string) {
	for _, algorithm := range checksum.Algorithms() {
		if value := c.amz(algorithm.Key()); value != "" {
			return algorithm, value
		}
	}
	return checksum.None, ""
}

// wholeSum returns the checksum of the object: of the kind its upload began with, or
// else of that of the one the client gives now. The one it gives must be right.
func (c *call) wholeSum(u *upload, parts []object.Info) (sum, error) {
	s := u.sum
	given, value := c.givenSum()
	switch kind := c.amz("X-Amz-Checksum-Type"); {
	case s.algorithm == checksum.None && given == checksum.None:
		return s, nil
	case s.algorithm == checksum.None:
		s = sum{algorithm: given, composite: strings.Contains(value, "-") || !given.IsCRC()}
	case given != checksum.None && given != s.algorithm:
		return s, faultf(invalidRequest, "Checksum Type mismatch occurred, expected checksum Type: %s, actual checksum Type: %s",
			strings.ToLower(s.algorithm.String()), strings.ToLower(given.String()))
	case kind != "" && kind != s.kind():
		return s, faultf(invalidRequest, "The upload was created using the %s checksum mode. The complete request must use the same checksum mode.", s.kind())
	}
	all, err := partsSummed(s.algorithm, parts)
	if err != nil {
		return s, err
	}
	if s.composite {
		s.value, err = s.algorithm.Composite(all)
	} else {
		var whole []byte
		whole, err = s.algorithm.Whole(all)
		s.value = checksum.Encode(whole)
	}
	if err != nil {
		return s, err
	}
	plain, _, _ := strings.Cut(s.value, "-")
	if given != checksum.None && value != s.value && value != plain {
		return s, faultf(badDigest, "The %s you specified did not match the calculated checksum.", s.algorithm)
	}
	return s, nil
}

// partsSummed returns the checksums of all parts.
func partsSummed(algorithm checksum.Algorithm, parts []object.Info) ([]checksum.Part, error) {
	all := make([]checksum.Part, len(parts))
	for i := range parts {
		value, ok := partSum(&parts[i], algorithm)
		if !ok {
			return nil, faultf(invalidRequest, "The %s of part %d is not known: the upload was not begun with that checksum",
				strings.ToLower(algorithm.String()), node.PartNumber(parts[i]))
		}
		all[i] = checksum.Part{Sum: value, Size: parts[i].Size}
	}
	return all, nil
}

// sendCompleted answers with what an upload has become.
func (c *call) sendCompleted(info *object.Info) error {
	c.showNewVersion(info)
	scheme := "http"
	if c.api.secure {
		scheme = "https"
	}
	x := newXML("CompleteMultipartUploadResult")
	x.text("Location", (&url.URL{Scheme: scheme, Host: c.R.Host, Path: c.R.URL.Path}).String())
	x.text("Bucket", c.bucket)
	x.text("Key", c.key)
	x.etag(info.ETag)
	if s, ok := checksumOf(info); ok {
		x.checksum(s)
		x.text("ChecksumType", s.kind())
	}
	return c.send(x)
}
