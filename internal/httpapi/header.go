package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/object"
)

// Our own headers, in canonical form.
const (
	headerVersion    = "X-Penstock-Version"
	headerModified   = "X-Penstock-Modified"
	headerError      = "X-Penstock-Error"
	headerCRC32      = "X-Penstock-Crc32"
	headerMeta       = "X-Penstock-Meta-"
	headerCopySource = "X-Penstock-Copy-Source"
)

const (
	maxMetadata    = 8 << 10 // of all keys and values of an object's metadata
	maxContentType = 1 << 10
)

// stamp sets the headers that say which write of an object is meant. The values
// are cut from one string, and their slices from one array: a small GET spends as
// much on its headers as on everything else at the door, so they get one
// allocation.
func (x *exchange) stamp(info *object.Info) {
	b := append(x.Text[:0], '"')
	b = append(b, info.ETag...)
	b = append(b, '"')
	etag := len(b)
	when := info.Modified.UTC()
	b = when.AppendFormat(b, http.TimeFormat)
	seconds := len(b)
	b = when.AppendFormat(b, time.RFC3339Nano)
	modified := len(b)
	b = strconv.AppendUint(b, uint64(info.Version.Map), 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, info.Version.Counter, 10)
	version := len(b)
	b = appendCRC(b, info.CRC32)
	x.Text = b
	s := string(b)

	h := x.W.Header()
	h["Etag"] = x.Value(s[:etag])
	h["Last-Modified"] = x.Value(s[etag:seconds])
	h[headerModified] = x.Value(s[seconds:modified])
	h[headerVersion] = x.Value(s[modified:version])
	h[headerCRC32] = x.Value(s[version:])
}

// describe sets the headers that say what an object is.
func (x *exchange) describe(info *object.Info) {
	x.stamp(info)
	h := x.W.Header()
	if x.R.Method != http.MethodGet || x.R.Header["Range"] != nil {
		h["Accept-Ranges"] = byteRanges // elsewhere it would be the ninth header, for which the map grows
	}
	h["X-Content-Type-Options"] = noSniff
	if info.ContentType == "" {
		h["Content-Type"] = plainBytes
	} else {
		h["Content-Type"] = x.Value(info.ContentType)
		// What a user stored must not act in a browser as a page of this node.
		h["Content-Security-Policy"] = sandbox
	}
	for key, value := range info.Metadata {
		switch key {
		case "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Expires":
			h[key] = []string{value} // as it was given at another door
		default:
			if key != "" && (key[0] < 'A' || key[0] > 'Z') { // else it is that door's own
				h[headerMeta+key] = []string{value}
			}
		}
	}
}

func appendCRC(b []byte, crc uint32) []byte {
	const digits = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, digits[crc>>shift&15])
	}
	return b
}

// putOptions reads what the headers say about an object that is being stored.
func putOptions(h http.Header) (opts object.PutOptions, err error) {
	if opts.Condition, err = door.WriteCondition(h); err != nil {
		return opts, err
	}
	opts.ContentType = h.Get("Content-Type")
	if len(opts.ContentType) > maxContentType || !utf8.ValidString(opts.ContentType) {
		return opts, object.Errorf(object.Invalid, "Content-Type must be UTF-8 of at most %d bytes", maxContentType)
	}
	if opts.CRC32, err = parseCRC(h[headerCRC32]); err != nil {
		return opts, err
	}
	if h["Content-Range"] != nil {
		return opts, object.Errorf(object.Invalid, "a part of an object cannot be written")
	}
	opts.Metadata, err = metadata(h)
	return opts, err
}

func parseCRC(values []string) (*uint32, error) {
	if values == nil {
		return nil, nil
	}
	crc, err := strconv.ParseUint(values[0], 16, 32)
	if err != nil || len(values) != 1 || len(values[0]) != 8 {
		return nil, object.Errorf(object.Invalid, "%s must be 8 hexadecimal digits, not %.40q", headerCRC32, values[0])
	}
	sum := uint32(crc)
	return &sum, nil
}

// metadata reads the user's own headers. Header names have no case, so the keys
// are made lower-case.
func metadata(h http.Header) (map[string]string, error) {
	var meta map[string]string
	total := 0
	for name, values := range h {
		key, ok := strings.CutPrefix(name, headerMeta)
		if !ok {
			continue
		}
		key = strings.ToLower(key)
		value := strings.Join(values, ", ")
		if key == "" || !utf8.ValidString(value) {
			return nil, object.Errorf(object.Invalid, "metadata header %q must have a name and a value in UTF-8", name)
		}
		if total += len(key) + len(value); total > maxMetadata {
			return nil, object.Errorf(object.Invalid, "the metadata is larger than %d bytes", maxMetadata)
		}
		if meta == nil {
			meta = map[string]string{}
		}
		meta[key] = value
	}
	return meta, nil
}
