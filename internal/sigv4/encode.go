package sigv4

// unreserved are the bytes S3 does not encode.
var unreserved = table("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

// token are the bytes of a header's name in lower case.
var token = table("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~")

func table(of string) (t [256]bool) {
	for i := range len(of) {
		t[of[i]] = true
	}
	return t
}

const upperHex = "0123456789ABCDEF"

func appendByte(b []byte, c byte) []byte {
	if unreserved[c] {
		return append(b, c)
	}
	return append(b, '%', upperHex[c>>4], upperHex[c&15])
}

// appendPath appends a decoded path in S3's encoding.
func appendPath(b []byte, path string) []byte {
	for i := range len(path) {
		if c := path[i]; unreserved[c] || c == '/' {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return b
}

// appendQuery appends an encoded name or value of a query in S3's encoding, whatever
// encoding it came in. It returns false for what url.QueryUnescape refuses.
func appendQuery(b []byte, raw string) ([]byte, bool) {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '+':
			b = append(b, "%20"...)
		case ';':
			return b, false // url.ParseQuery drops it, clients encode it
		case '%':
			if i+2 >= len(raw) {
				return b, false
			}
			high, low := digit(raw[i+1]), digit(raw[i+2])
			if high > 15 || low > 15 {
				return b, false
			}
			b = appendByte(b, high<<4|low)
			i += 2
		default:
			b = appendByte(b, c)
		}
	}
	return b, true
}

// appendFolded appends a header's value without spaces around it, and with one for
// many within.
func appendFolded(b []byte, value string) []byte {
	start := len(b)
	space := false
	for i := range len(value) {
		c := value[i]
		if c == ' ' || c == '\t' {
			space = true
			continue
		}
		if space && len(b) > start {
			b = append(b, ' ')
		}
		space = false
		b = append(b, c)
	}
	return b
}

// digit returns the value of a hexadecimal digit, or 16.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}

// decodeHex reads exactly as many digits as fill sum.
func decodeHex(sum *[32]byte, text string) bool {
	if len(text) != 2*len(sum) {
		return false
	}
	for i := range sum {
		high, low := digit(text[2*i]), digit(text[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		sum[i] = high<<4 | low
	}
	return true
}

func appendHex(b, sum []byte) []byte {
	const lowerHex = "0123456789abcdef"
	for _, c := range sum {
		b = append(b, lowerHex[c>>4], lowerHex[c&15])
	}
	return b
}
