package source

import (
	"strings"

	"penstock.dev/penstock/internal/object"
)

// Allowed reports as Denied a URL that none of the prefixes covers, and as Invalid one
// that is none, and prefixes that are none. A prefix covers what is below it, on the
// border of a component: s3://data/a covers s3://data/a/b, and not s3://data/ab. A
// scheme alone (s3://) covers all of it.
//
// Which server is asked, and as whom, is a part of the place: the parameters endpoint
// and profile must be those of the prefix, or be missing in both. A link in a directory
// is not looked at here.
func Allowed(prefixes []string, url string) error {
	u, err := ParseURL(url)
	if err != nil {
		return err
	}
	covered := false
	for _, text := range prefixes {
		if scheme, ok := strings.CutSuffix(text, "://"); ok {
			if _, known := forms[scheme]; !known {
				return object.Errorf(object.Invalid, "a prefix of allowed sources has an unknown scheme; there are %s", strings.Join(Schemes(), ", "))
			}
			covered = covered || (scheme == u.Scheme && u.Option("endpoint") == "" && u.Option("profile") == "")
			continue
		}
		prefix, err := parsePrefix(text)
		if err != nil {
			return object.Errorf(object.Invalid, "in a prefix of allowed sources: %w", err)
		}
		covered = covered || prefix.covers(u)
	}
	if !covered {
		return object.Errorf(object.Denied, "the source %s is not among those the administrator allows", u)
	}
	return nil
}

// parsePrefix reads a URL whose path may still be too short.
func parsePrefix(text string) (URL, error) {
	u, err := ParseURL(text)
	if err == nil {
		return u, nil
	}
	// The account of az or the server of penstock may be allowed as a whole.
	for _, scheme := range []string{"az://", "penstock://"} {
		if strings.HasPrefix(text, scheme) && !strings.Contains(text, "?") {
			if longer, again := ParseURL(strings.TrimSuffix(text, "/") + "/any"); again == nil && longer.Path == "any" {
				longer.Path = ""
				return longer, nil
			}
		}
	}
	return URL{}, err
}

func (u URL) covers(other URL) bool {
	for _, name := range []string{"endpoint", "profile"} {
		if u.Option(name) != other.Option(name) {
			return false
		}
	}
	return u.Scheme == other.Scheme && u.Host == other.Host &&
		(u.Path == other.Path || strings.HasPrefix(other.Path, u.Prefix()))
}
