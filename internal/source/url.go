package source

import (
	"maps"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
)

// URL says where a source is. It holds no secrets: those come from the chain of the
// place's own ecosystem. It is in normal form if it comes from ParseURL.
type URL struct {
	Scheme string
	Host   string // the bucket of s3 and gs, the account of az, else host and port; empty for file
	Path   string // without slashes at its ends, decoded: the prefix of keys, or where a tree begins

	// Options are the parameters that were given, by their names.
	Options map[string]string
}

// form is what the URLs of a scheme look like.
type form struct {
	what    string // shown to who got it wrong
	host    func(string) bool
	options map[string]func(string) bool
	depth   int // components that the path must have at least
	exact   bool
}

var (
	truth     = func(s string) bool { return s == "true" || s == "false" }
	word      = func(s string) bool { return s != "" && strings.Trim(s, wordLetters) == "" }
	bucket    = func(s string) bool { return object.ValidateBucket(s) == nil }
	noHost    = func(s string) bool { return s == "" }
	endpoint  = func(s string) bool { u, err := url.Parse(s); return err == nil && bareServer(u) }
	indexPage = func(s string) bool {
		list, ok := strings.CutPrefix(s, "list:")
		return s == "auto" || (ok && PathKey(list))
	}
)

const wordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// forms is the syntax we know; which of it can be opened is for an Opener to say.
var forms = map[string]form{
	"s3": {what: "s3://BUCKET/PREFIX?endpoint=URL&region=NAME&profile=NAME&anonymous=true&path-style=true", host: bucket, options: map[string]func(string) bool{
		"endpoint": endpoint, "region": word, "profile": word, "anonymous": truth, "path-style": truth,
	}},
	"gs":       {what: "gs://BUCKET/PREFIX?endpoint=URL&anonymous=true", host: word, options: map[string]func(string) bool{"endpoint": endpoint, "anonymous": truth}},
	"az":       {what: "az://ACCOUNT/CONTAINER/PREFIX?endpoint=URL&anonymous=true", host: word, options: map[string]func(string) bool{"endpoint": endpoint, "anonymous": truth}, depth: 1},
	"file":     {what: "file:///DIRECTORY", host: noHost},
	"http":     {what: "http://HOST/PATH?index=auto|list:FILE", host: server, options: map[string]func(string) bool{"index": indexPage}},
	"https":    {what: "https://HOST/PATH?index=auto|list:FILE", host: server, options: map[string]func(string) bool{"index": indexPage}},
	"penstock": {what: "penstock://HOST:PORT/BUCKET", host: server, depth: 1, exact: true},
}

// Schemes returns the schemes whose URLs can be parsed, in their order.
func Schemes() []string { return slices.Sorted(maps.Keys(forms)) }

// ParseURL reads a URL and brings it into normal form. It refuses with Invalid whatever
// could be understood in two ways: components that are empty or dots, parameters that
// are unknown or given twice, escaped slashes. It refuses names and passwords, and its
// errors never repeat the text, which may hold some.
func ParseURL(text string) (URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return URL{}, object.Errorf(object.Invalid, "the source is not a URL with one of the schemes %s", strings.Join(Schemes(), ", "))
	}
	form, ok := forms[u.Scheme]
	if !ok {
		return URL{}, object.Errorf(object.Invalid, "a source cannot have the scheme %q; there are %s", u.Scheme, strings.Join(Schemes(), ", "))
	}
	refuse := func(why string) (URL, error) {
		return URL{}, object.Errorf(object.Invalid, "the URL of a source %s; it is %s", why, form.what)
	}
	switch {
	case u.User != nil:
		return refuse("must not hold a name or password: credentials are given by reference")
	case u.Opaque != "":
		return refuse("lacks the slashes after its scheme")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return refuse("must not have a fragment")
	case !utf8.ValidString(u.Path) || strings.ContainsFunc(u.Path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return refuse("has characters in its path that are no names")
	case strings.Contains(u.Path, "//"):
		return refuse("has empty components in its path")
	case strings.Contains(strings.ToLower(u.EscapedPath()), "%2f"):
		return refuse("has an escaped slash in its path")
	}
	parsed := URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(strings.TrimPrefix(u.Path, "/"), "/")}
	if u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "penstock" {
		parsed.Host = normalHost(u)
	}
	if !form.host(parsed.Host) {
		return refuse("names no place of that kind")
	}
	if parsed.Path != "" && !PathKey(parsed.Path) {
		return refuse("has components in its path that are dots")
	}
	depth := 0
	if parsed.Path != "" {
		depth = strings.Count(parsed.Path, "/") + 1
	}
	if depth < form.depth || (form.exact && depth != form.depth) {
		return refuse("has a path of the wrong length")
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refuse("has a query that cannot be read")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		check, ok := form.options[name]
		switch given := values[name]; {
		case !ok: // and its name may be the secret
			return refuse("has a parameter that means nothing")
		case len(given) != 1:
			return refuse("has the parameter " + name + " twice")
		case !check(given[0]):
			return refuse("has a value for " + name + " that makes no sense")
		default:
			if parsed.Options == nil {
				parsed.Options = make(map[string]string)
			}
			parsed.Options[name] = given[0]
		}
	}
	return parsed, nil
}

// server accepts a host with or without a port.
func server(host string) bool {
	u, err := url.Parse("http://" + host)
	return err == nil && bareServer(u)
}

// bareServer accepts the URL of a server alone.
func bareServer(u *url.URL) bool {
	if (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || (u.Path != "" && u.Path != "/") {
		return false
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	host := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Is6()
	}
	return host != "" && strings.Trim(host, wordLetters) == "" && !strings.HasSuffix(u.Host, ":")
}

// normalHost is lower case and without the port that goes without saying.
func normalHost(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		return strings.TrimSuffix(host, ":80")
	case "https":
		return strings.TrimSuffix(host, ":443")
	}
	return host
}

// Option returns a parameter, empty if it was not given.
func (u URL) Option(name string) string { return u.Options[name] }

// True reports whether a parameter was given as true.
func (u URL) True(name string) bool { return u.Options[name] == "true" }

// Prefix is what stands before keys in the place: the path with a slash behind it, or
// nothing.
func (u URL) Prefix() string {
	if u.Path == "" {
		return ""
	}
	return u.Path + "/"
}

// String returns the URL in normal form; ParseURL reads it again.
func (u URL) String() string {
	text := url.URL{Scheme: u.Scheme, Host: u.Host, Path: path.Join("/", u.Path)}
	if u.Path == "" && u.Scheme != "file" {
		text.Path = ""
	}
	query := url.Values{}
	for name, value := range u.Options {
		query.Set(name, value)
	}
	text.RawQuery = query.Encode()
	if u.Scheme == "file" {
		return "file://" + strings.TrimPrefix(text.String(), "file://")
	}
	return text.String()
}
