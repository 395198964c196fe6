package pack

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Fields that do not fit the head stand in a PAX header before it. archive/tar
// refuses one of more than 1 MiB; ours stay below.
const (
	maxPAX = 1 << 20

	paxPath    = "path"
	paxName    = "PENSTOCK.name"    // bucket/key, where the path cannot say it
	paxType    = "PENSTOCK.type"    // content type
	paxETag    = "PENSTOCK.etag"    // where it is neither native nor an MD5
	paxMeta    = "PENSTOCK.meta"    // the user's metadata, as in the query of a URL
	paxSize    = "PENSTOCK.size"    // of the content, where it is in blobs: 16 hexadecimal digits
	paxCRC     = "PENSTOCK.crc32"   // likewise: 8 digits
	paxExtents = "PENSTOCK.extents" // blob:offset:length in hexadecimal, joined by commas
)

// paxFields calls add for each field the record needs beside its head.
func paxFields(r *Record, add func(key, value string)) {
	var buf [maxPath]byte
	path, exact := appendTarName(buf[:0], r)
	if !fitsUstar(path) {
		add(paxPath, string(path))
	}
	if !exact {
		add(paxName, r.Name.String())
	}
	if _, ok := contentTypeCode(r.ContentType); !ok {
		add(paxType, r.ContentType)
	}
	if r.ETag != "" && !isMD5(r.ETag) {
		add(paxETag, r.ETag)
	}
	if len(r.Metadata) > 0 {
		add(paxMeta, formatMeta(r.Metadata))
	}
	if len(r.Extents) > 0 {
		add(paxSize, fmt.Sprintf("%016x", uint64(r.Size))) // of fixed width: it is known later than the head's length
		add(paxCRC, fmt.Sprintf("%08x", r.CRC32))
		add(paxExtents, formatExtents(r.Extents))
	}
}

func paxLen(r *Record) (n int) {
	paxFields(r, func(key, value string) { n += paxRecordLen(key, value) })
	return n
}

// appendPAX appends the fields as PAX writes them: "length key=value\n", where
// the length counts its own digits too.
func appendPAX(dst []byte, r *Record) []byte {
	paxFields(r, func(key, value string) {
		dst = strconv.AppendInt(dst, int64(paxRecordLen(key, value)), 10)
		dst = append(dst, ' ')
		dst = append(dst, key...)
		dst = append(dst, '=')
		dst = append(dst, value...)
		dst = append(dst, '\n')
	})
	return dst
}

func paxRecordLen(key, value string) int {
	rest := len(key) + len(value) + 3
	n := rest + len(strconv.Itoa(rest))
	return rest + len(strconv.Itoa(n))
}

// parsePAX sets the record's fields from PAX data and returns the path, and
// whether the true name was among them.
func parsePAX(data []byte, r *Record, path string) (_ string, named bool, err error) {
	for len(data) > 0 {
		var key, value string
		if key, value, data, err = cutPAX(data); err != nil {
			return "", false, err
		}
		switch key {
		case paxPath:
			path = value
		case paxName:
			var ok bool
			if r.Name.Bucket, r.Name.Key, ok = strings.Cut(value, "/"); !ok {
				return "", false, errNoRecord
			}
			named = true
		case paxType:
			r.ContentType = value
		case paxETag:
			r.ETag = value
		case paxMeta:
			r.Metadata, err = parseMeta(value)
		case paxSize:
			r.Size, err = strconv.ParseInt(value, 16, 64)
		case paxCRC:
			var crc uint64
			crc, err = strconv.ParseUint(value, 16, 32)
			r.CRC32 = uint32(crc)
		case paxExtents:
			r.Extents, err = parseExtents(value)
		}
		if err != nil {
			return "", false, errNoRecord
		}
	}
	return path, named, nil
}

// cutPAX takes the first field off PAX data.
func cutPAX(data []byte) (key, value string, rest []byte, err error) {
	digits := data[:max(0, bytes.IndexByte(data[:min(len(data), len("1048576 "))], ' '))]
	n, err := strconv.ParseUint(string(digits), 10, 32)
	if err != nil || n <= uint64(len(digits)+1) || n > uint64(len(data)) || data[n-1] != '\n' {
		return "", "", nil, errNoRecord
	}
	key, value, ok := strings.Cut(string(data[len(digits)+1:n-1]), "=")
	if !ok {
		return "", "", nil, errNoRecord
	}
	return key, value, data[n:], nil
}

// formatMeta writes metadata byte for byte, whatever the bytes are: HTTP headers
// need not be UTF-8, which rules out JSON.
func formatMeta(meta map[string]string) string {
	var b strings.Builder
	for i, key := range slices.Sorted(maps.Keys(meta)) {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(key))
		b.WriteByte('=')
		b.WriteString(url.QueryEscape(meta[key]))
	}
	return b.String()
}

func parseMeta(s string) (map[string]string, error) {
	meta := make(map[string]string)
	for pair := range strings.SplitSeq(s, "&") {
		key, value, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(key)
		if err != nil {
			return nil, err
		}
		if meta[key], err = url.QueryUnescape(value); err != nil {
			return nil, err
		}
	}
	return meta, nil
}

func formatExtents(extents []Extent) string {
	b := make([]byte, 0, 32*len(extents))
	for i, e := range extents {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, e.Blob, 16)
		b = append(b, ':')
		b = strconv.AppendInt(b, e.Offset, 16)
		b = append(b, ':')
		b = strconv.AppendInt(b, e.Length, 16)
	}
	return string(b)
}

func parseExtents(s string) ([]Extent, error) {
	extents := make([]Extent, 0, strings.Count(s, ",")+1)
	for part := range strings.SplitSeq(s, ",") {
		blob, rest, _ := strings.Cut(part, ":")
		offset, length, _ := strings.Cut(rest, ":")
		id, err1 := strconv.ParseUint(blob, 16, 64)
		off, err2 := strconv.ParseInt(offset, 16, 64)
		n, err3 := strconv.ParseInt(length, 16, 64)
		if err1 != nil || err2 != nil || err3 != nil || off < 0 || n < 0 {
			return nil, errNoRecord
		}
		extents = append(extents, Extent{Blob: id, Offset: off, Length: n})
	}
	return extents, nil
}
