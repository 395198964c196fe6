package s3api

import (
	"net/http"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// The attributes of an object that can be asked for.
const (
	attributeETag     = "ETag"
	attributeChecksum = "Checksum"
	attributeParts    = "ObjectParts"
	attributeClass    = "StorageClass"
	attributeSize     = "ObjectSize"
)

// maxPage is how many parts or uploads one answer has at most.
const maxPage = 1000

// getAttributes describes an object as the headers of a HEAD cannot: with its parts.
func (a *API) getAttributes(c *call) error {
	name, err := c.name()
	if err != nil {
		return err
	}
	wanted, err := c.attributes()
	if err != nil {
		return err
	}
	shown, err := parsePartRange(c.amz("X-Amz-Part-Number-Marker"), c.amz("X-Amz-Max-Parts"))
	if err != nil {
		return err
	}
	info, err := a.node.Stat(c.R.Context(), name)
	if err != nil {
		return c.unlisted(err)
	}
	if c.about.Versioning != "" || info.Name.ID != (object.Version{}) {
		c.Header()["X-Amz-Version-Id"] = c.Value(versionID(info.Name.ID))
	}
	c.Header()["Last-Modified"] = c.Value(info.Modified.UTC().Format(http.TimeFormat))
	x := newXML("GetObjectAttributesResponse")
	if wanted[attributeETag] {
		x.text("ETag", info.ETag) // without quotes, for once
	}
	if s, ok := checksumOf(&info); ok && wanted[attributeChecksum] {
		x.begin("Checksum")
		x.checksum(s)
		x.text("ChecksumType", s.kind())
		x.end()
	}
	if sizes := partSizes(&info); len(sizes) > 0 && wanted[attributeParts] {
		x.objectParts(&info, sizes, shown)
	}
	if wanted[attributeClass] {
		x.text("StorageClass", storageClass)
	}
	if wanted[attributeSize] {
		x.number("ObjectSize", info.Size)
	}
	return c.send(x)
}

// storageClass is that of all objects.
const storageClass = "STANDARD"

// attributes returns which attributes are asked for.
func (c *call) attributes() (map[string]bool, error) {
	values := c.R.Header["X-Amz-Object-Attributes"]
	if values == nil {
		values = []string{c.amz("X-Amz-Object-Attributes")}
	}
	wanted := make(map[string]bool)
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			switch name = strings.TrimSpace(name); name {
			case attributeETag, attributeChecksum, attributeParts, attributeClass, attributeSize:
				wanted[name] = true
			case "":
			default:
				return nil, faultf(invalidArgument, "Invalid attribute name specified.")
			}
		}
	}
	if len(wanted) == 0 {
		return nil, faultf(invalidRequest, "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty")
	}
	return wanted, nil
}

// partRange is a piece of a list of parts.
type partRange struct {
	after int // the number of the last part that was seen
	limit int
}

func parsePartRange(after, limit string) (p partRange, err error) {
	if after != "" {
		if p.after, err = strconv.Atoi(after); err != nil || p.after < 0 {
			return p, faultf(invalidArgument, "part-number-marker must be a number that is not negative")
		}
	}
	p.limit, err = pageLimit("max-parts", limit)
	return p, err
}

// pageLimit reads how many entries of a list are asked for at most.
func pageLimit(name, text string) (int, error) {
	if text == "" {
		return maxPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, faultf(invalidArgument, "%s must be a number that is not negative", name)
	}
	return min(n, maxPage), nil
}

// objectParts writes the parts that an object was brought in.
func (x *xmlWriter) objectParts(info *object.Info, sizes []int64, p partRange) {
	sums := partSums(info)
	first := min(p.after, len(sizes))
	last := min(first+p.limit, len(sizes))
	x.begin("ObjectParts")
	x.number("PartsCount", int64(len(sizes)))
	x.number("PartNumberMarker", int64(p.after))
	x.number("NextPartNumberMarker", int64(last))
	x.number("MaxParts", int64(p.limit))
	x.boolean("IsTruncated", last < len(sizes))
	for i := first; i < last; i++ {
		x.begin("Part")
		x.number("PartNumber", int64(i+1))
		x.number("Size", sizes[i])
		if i < len(sums) {
			x.checksum(sums[i])
		}
		x.end()
	}
	x.end()
}

// checksum writes the element of a checksum.
func (x *xmlWriter) checksum(s sum) { x.text("Checksum"+s.algorithm.String(), s.value) }
