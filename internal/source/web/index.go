package web

import (
	"encoding/json"
	"html"
	"mime"
	"net/url"
	"regexp"
	"strings"

	"penstock.dev/penstock/internal/source"
)

// links finds where the anchors of a page lead.
var links = regexp.MustCompile(`(?is)<a\s(?:[^>]*?\s)?href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))`)

// parseIndex returns the children that an index page names: nginx's JSON, or any HTML
// whose links lead to files and directories right below the page's own URL. Links to
// elsewhere, to the parent and to other orders of the page are no children.
func parseIndex(page []byte, contentType, at string) ([]source.Child, error) {
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "application/json" {
		return parseJSON(page)
	}
	base, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	var children []source.Child
	for _, match := range links.FindAllSubmatch(page, -1) {
		href := html.UnescapeString(string(match[1]) + string(match[2]) + string(match[3]))
		if child, ok := childOf(base, href); ok {
			children = append(children, child)
		}
	}
	return children, nil
}

func childOf(base *url.URL, href string) (source.Child, bool) {
	u, err := base.Parse(href)
	if err != nil || u.Scheme != base.Scheme || u.Host != base.Host || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return source.Child{}, false
	}
	name, below := strings.CutPrefix(u.Path, base.Path)
	name, dir := strings.CutSuffix(name, "/")
	// An escaped slash would be a part of a name, and those have none.
	if !below || name == "" || strings.Contains(name, "/") {
		return source.Child{}, false
	}
	return source.Child{Name: name, Dir: dir}, true
}

func parseJSON(page []byte) ([]source.Child, error) {
	var entries []struct{ Name, Type string }
	if err := json.Unmarshal(page, &entries); err != nil {
		return nil, err
	}
	var children []source.Child
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name, "/"); name != "" && !strings.Contains(name, "/") && (e.Type == "file" || e.Type == "directory") {
			children = append(children, source.Child{Name: name, Dir: e.Type == "directory"})
		}
	}
	return children, nil
}
