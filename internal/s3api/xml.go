package s3api

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"penstock.dev/penstock/internal/door"
)

// xmlWriter writes an answer. It is written by hand: a listing of a thousand keys is
// the door's second busiest answer, and reflection would take most of its time.
type xmlWriter struct {
	b    []byte
	root string
	open []string
}

const xmlns = ` xmlns="http://s3.amazonaws.com/doc/2006-03-01/"`

// newXML begins a document. Errors alone have no name space.
func newXML(root string) *xmlWriter {
	x := &xmlWriter{root: root, b: make([]byte, 0, 512)}
	x.b = append(x.b, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<"...)
	x.b = append(x.b, root...)
	if root != "Error" {
		x.b = append(x.b, xmlns...)
	}
	x.b = append(x.b, '>')
	return x
}

// begin opens an element.
func (x *xmlWriter) begin(name string) {
	x.tag(name)
	x.open = append(x.open, name)
}

// end closes the element that was opened last.
func (x *xmlWriter) end() {
	last := len(x.open) - 1
	x.closing(x.open[last])
	x.open = x.open[:last]
}

// text writes an element with text.
func (x *xmlWriter) text(name, value string) {
	x.tag(name)
	x.escape(value)
	x.closing(name)
}

// optional writes an element only if there is something in it.
func (x *xmlWriter) optional(name, value string) {
	if value != "" {
		x.text(name, value)
	}
}

func (x *xmlWriter) number(name string, value int64) {
	x.tag(name)
	x.b = strconv.AppendInt(x.b, value, 10)
	x.closing(name)
}

func (x *xmlWriter) boolean(name string, value bool) { x.text(name, strconv.FormatBool(value)) }

func (x *xmlWriter) time(name string, value time.Time) {
	x.tag(name)
	x.b = value.UTC().AppendFormat(x.b, "2006-01-02T15:04:05.000Z")
	x.closing(name)
}

// etag writes an ETag with its quotes.
func (x *xmlWriter) etag(value string) {
	x.tag("ETag")
	x.b = append(x.b, "&quot;"...)
	x.escape(value)
	x.b = append(x.b, "&quot;"...)
	x.closing("ETag")
}

func (x *xmlWriter) tag(name string) {
	x.b = append(x.b, '<')
	x.b = append(x.b, name...)
	x.b = append(x.b, '>')
}

func (x *xmlWriter) closing(name string) {
	x.b = append(x.b, '<', '/')
	x.b = append(x.b, name...)
	x.b = append(x.b, '>')
}

// escape writes text. What XML cannot hold at all becomes U+FFFD: who has such keys
// asks for encoding-type=url.
func (x *xmlWriter) escape(s string) {
	start := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		var with string
		switch {
		case r == '&':
			with = "&amp;"
		case r == '<':
			with = "&lt;"
		case r == '>':
			with = "&gt;"
		case r == '"':
			with = "&quot;"
		case r == '\t':
			with = "&#x9;"
		case r == '\n':
			with = "&#xA;"
		case r == '\r':
			with = "&#xD;"
		case r < 0x20 || r == 0xfffe || r == 0xffff || (r == utf8.RuneError && size == 1):
			with = "\uFFFD"
		default:
			i += size
			continue
		}
		x.b = append(x.b, s[start:i]...)
		x.b = append(x.b, with...)
		i += size
		start = i
	}
	x.b = append(x.b, s[start:]...)
}

// send answers with a document.
func (c *call) send(x *xmlWriter) error {
	x.closing(x.root)
	h := c.Header()
	h["Content-Type"] = xmlType
	h["Content-Length"] = []string{strconv.Itoa(len(x.b))}
	_, err := c.Write(x.b)
	if err != nil && door.ClientGone(err) {
		return nil // nobody is there to be told
	}
	return err
}

var xmlType = []string{"application/xml"}

// readXML reads a document of at most limit bytes into v. Nothing is looked up or
// expanded: a document with a DTD or a processing instruction of its own is refused.
func (c *call) readXML(v any, limit int64) error {
	text, err := c.ReadSmall(c.R.Body, limit)
	if err != nil {
		if errors.Is(err, door.ErrLonger) {
			return faultf(malformedXML, "the document is longer than %d bytes", limit)
		}
		return err
	}
	return parseXML(text, v)
}

const (
	maxXMLDepth = 16
	// maxXMLElements is what the largest document needs, that which completes an upload
	// of 10,000 parts with their checksums. Small elements make large structures.
	maxXMLElements = 1 + 10000*5
)

func parseXML(text []byte, v any) error {
	d := xml.NewDecoder(bytes.NewReader(text))
	depth, elements := 0, 0
	for {
		token, err := d.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return faultf(malformedXML, "the document is not XML: %v", err)
		}
		switch t := token.(type) {
		case xml.Directive:
			return faultf(malformedXML, "the document has a DTD")
		case xml.ProcInst:
			if t.Target != "xml" {
				return faultf(malformedXML, "the document has a processing instruction")
			}
		case xml.StartElement:
			if depth == 0 && elements > 0 {
				return faultf(malformedXML, "the document has two roots")
			}
			if depth++; depth > maxXMLDepth {
				return faultf(malformedXML, "the document is nested too deeply")
			}
			if elements++; elements > maxXMLElements {
				return faultf(malformedXML, "the document has more than %d elements", maxXMLElements)
			}
		case xml.EndElement:
			depth--
		}
	}
	if elements == 0 || depth != 0 {
		return fault(malformedXML)
	}
	if err := xml.Unmarshal(text, v); err != nil {
		return faultf(malformedXML, "the document is not as expected: %v", err)
	}
	return nil
}

// encoder writes keys the way a listing was asked to: as they are, or as in a URL.
type encoder bool

// append writes a key as in a URL.
func (url encoder) append(b []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		if c := s[i]; unreserved[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

// unreserved are the bytes that stay as they are in a URL-encoded key.
var unreserved = func() (table [256]bool) {
	for c := range table {
		b := byte(c)
		table[c] = (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') ||
			b == '-' || b == '_' || b == '.' || b == '~' || b == '/'
	}
	return table
}()
