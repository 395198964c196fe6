package web

import (
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/source"
)

// apachePage is what mod_autoindex writes with FancyIndexing.
const apachePage = `<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN">
<html><head><title>Index of /data</title></head><body><h1>Index of /data</h1>
<table><tr><th><a href="?C=N;O=D">Name</a></th><th><a href="?C=M;O=A">Last modified</a></th><th><a href="?C=S;O=A">Size</a></th></tr>
<tr><td valign="top"><img src="/icons/back.gif" alt="[PARENTDIR]"></td><td><a href="/">Parent Directory</a></td><td>&nbsp;</td></tr>
<tr><td><a href="a%20b.tar">a b.tar</a></td><td align="right">2024-01-02 03:04  </td><td align="right">1.2M</td></tr>
<tr><td><A HREF='q&amp;a'>q&amp;a</A></td></tr>
<tr><td><a class="dir" href=sub/>sub/</a></td></tr>
<tr><td><a href="/data/absolute">absolute</a></td></tr>
<tr><td><a href="http://host/data/whole">whole</a></td></tr>
<tr><td><a href="a:b">not a child: another scheme</a></td></tr>
<tr><td><a href="./c%3Ad">c:d</a></td></tr>
<tr><td><a href="../up">up</a><a href="../">..</a><a href="./">.</a><a href="">self</a><a href="#top">top</a></td></tr>
<tr><td><a href="sub/deep">deep</a><a href="x%2Fy">x/y</a><a href="%2e%2e/z">z</a></td></tr>
<tr><td><a href="http://other/data/x">x</a><a href="https://host/data/x">x</a><a href="//other/data/x">x</a><a href="http://u@host/data/x">x</a></td></tr>
<tr><td><a name="href" title="href=no">no</a><abbr href="no">no</abbr></td></tr>
</table></body></html>`

func TestParseIndex(t *testing.T) {
	children, err := parseIndex([]byte(apachePage), "text/html;charset=UTF-8", "http://host/data/")
	if err != nil {
		t.Fatal(err)
	}
	want := []source.Child{{Name: "a b.tar"}, {Name: "q&a"}, {Name: "sub", Dir: true}, {Name: "absolute"}, {Name: "whole"}, {Name: "c:d"}}
	if !slices.Equal(children, want) {
		t.Errorf("%+v, want %+v", children, want)
	}
	children, err = parseIndex([]byte(`[{"name":"d","type":"directory","mtime":"x"},{"name":"a b","type":"file","size":3},{"name":"x/y","type":"file"},{"name":"l","type":"other"}]`), "application/json", "http://host/data/")
	if want := []source.Child{{Name: "d", Dir: true}, {Name: "a b"}}; err != nil || !slices.Equal(children, want) {
		t.Errorf("%+v, %v, want %+v", children, err, want)
	}
	if _, err := parseIndex([]byte(`[{"name":`), "application/json", "http://host/"); err == nil {
		t.Error("half a page is taken for one")
	}
}

// FuzzParseIndex shows that no page can name what is not right below it.
func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(apachePage), "text/html")
	f.Add([]byte(`[{"name":"d","type":"directory"}]`), "application/json")
	f.Add([]byte(`<a href="..%2f">`), "")
	f.Fuzz(func(t *testing.T, page []byte, contentType string) {
		children, err := parseIndex(page, contentType, "http://host/data/")
		for _, c := range children {
			if err != nil || c.Name == "" || strings.Contains(c.Name, "/") {
				t.Fatalf("%+v, %v", c, err)
			}
		}
	})
}
