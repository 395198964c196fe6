package sigv4

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"hash"
	"io"
)

// Bounds on what stands between the bytes of the content.
const (
	maxLine  = 512 // bytes of a chunk's header or of a line of the trailer
	maxLines = 8   // of the trailer, blank ones too
)

// chunks decodes aws-chunked content: chunks of any size, each behind a line with its
// length and perhaps its signature; one of length 0; then the trailer, until the body
// ends. It holds one line in memory and no content. The error for a wrong signature
// comes with the first Read after the chunk: before any io.EOF.
type chunks struct {
	r      *bufio.Reader
	form   shape
	claims *claims // the trailer's checksum goes there
	chain  *chain  // nil if the chunks are not signed
	sha    hash.Hash

	state  func(*chunks) error // what is to be read next; nil for content
	left   int64               // of this chunk
	budget int64               // of all chunks to come
}

func newChunks(r io.Reader, req *Request, form shape, chain *chain) *chunks {
	c := &chunks{r: bufio.NewReaderSize(r, maxLine), form: form, claims: &req.claims, chain: chain, budget: req.Length}
	c.state = (*chunks).head
	if chain != nil {
		c.sha = sha256.New()
	}
	return c
}

func (c *chunks) Read(p []byte) (int, error) {
	for c.state != nil {
		if err := c.state(c); err != nil {
			return 0, err
		}
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	if c.chain != nil {
		c.sha.Write(p[:n])
	}
	if c.left -= int64(n); c.left == 0 {
		c.state = (*chunks).foot
	}
	if err == io.EOF && n == 0 && len(p) > 0 {
		return 0, io.ErrUnexpectedEOF
	}
	if err == io.EOF {
		err = nil // it comes again, and is judged by what should have come
	}
	return n, err
}

// line reads up to the end of a line, without it. The line is valid until the next
// read.
func (c *chunks) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	switch {
	case err == bufio.ErrBufferFull:
		return nil, errFrame
	case err == io.EOF && len(line) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	return line[:len(line)-1], nil
}

var errFrame = fail(InvalidRequest, "The aws-chunked body is malformed")

var chunkSignature = []byte(";chunk-signature=")

// head reads the line before a chunk.
func (c *chunks) head() error {
	line, err := c.line()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	line, ok := bytes.CutSuffix(line, []byte{'\r'})
	if !ok {
		return errFrame
	}
	size, signature, signed := bytes.Cut(line, chunkSignature)
	if signed != (c.chain != nil) {
		return errFrame
	}
	if signed && !c.chain.expect(signature) {
		return errFrame
	}
	if c.left, ok = parseHex(size); !ok {
		return errFrame
	}
	if c.left > c.budget {
		return errIncomplete
	}
	c.budget -= c.left
	if c.chain != nil {
		c.sha.Reset()
	}
	c.state = nil
	if c.left == 0 {
		c.state = (*chunks).tail
		return c.verify()
	}
	return nil
}

// foot reads what ends a chunk, and checks its signature.
func (c *chunks) foot() error {
	line, err := c.line()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if string(line) != "\r" {
		return errFrame
	}
	c.state = (*chunks).head
	return c.verify()
}

func (c *chunks) verify() error {
	if c.chain == nil || c.chain.verify(payloadSignature, c.sha) {
		return nil
	}
	return errSignature
}

// tail reads the trailer to the end of the body. Clients differ in where they put
// blank lines and whether a line ends in \r\n or \n, so only the other lines count.
func (c *chunks) tail() error {
	var seen, signed bool
	var canonical []byte
	for range maxLines {
		line, err := c.line()
		if err == io.EOF {
			return c.end(seen, signed, canonical)
		}
		if err == errFrame {
			return errTrailer
		}
		if err != nil {
			return err
		}
		if line = bytes.TrimSuffix(line, []byte{'\r'}); len(line) == 0 {
			continue
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.Trim(value, " \t")
		switch {
		case signed, !c.form.trailer: // nothing may come any more
			return errTrailer
		case equalFold(name, "x-amz-trailer-signature"):
			if signed = c.chain != nil && c.chain.expect(value); !signed {
				return errTrailer
			}
		case !seen && c.claims.trailer && equalFold(name, c.claims.algorithm.Header()):
			seen = true
			if c.claims.sum, err = c.claims.algorithm.Decode(string(value)); err != nil {
				return fail(BadDigest, "Value for %s trailing header is invalid.", c.claims.algorithm.Header())
			}
			canonical = append(append(canonical, c.claims.algorithm.Header()...), ':')
			canonical = append(append(canonical, value...), '\n')
		default:
			return errTrailer
		}
	}
	return errTrailer
}

var errTrailer = fail(MalformedTrailerError, "The request contained trailing data that was not well-formed or did not conform to our published schema.")

// end checks that everything that was announced has come.
func (c *chunks) end(seen, signed bool, canonical []byte) error {
	if seen != c.claims.trailer {
		return errTrailer
	}
	if c.form.trailer && c.chain != nil {
		if !signed {
			return errTrailer
		}
		c.sha.Reset()
		c.sha.Write(canonical)
		if !c.chain.verify(trailerSignature, c.sha) {
			return errSignature
		}
	}
	return io.EOF
}

func parseHex(s []byte) (int64, bool) {
	if len(s) == 0 || len(s) > 15 {
		return 0, false
	}
	var n int64
	for _, c := range s {
		d := digit(c)
		if d > 15 {
			return 0, false
		}
		n = n<<4 | int64(d)
	}
	return n, true
}
