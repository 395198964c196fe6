package dataset

import (
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/manifest"
)

// types are the types of columns as users write them.
var types = map[string]manifest.Type{"int": manifest.Int, "float": manifest.Float, "text": manifest.Text, "class": manifest.Class}

// ParseColumn reads NAME:TYPE, with a type int, float, text or class.
func ParseColumn(text string) (manifest.Column, error) {
	name, kind, _ := strings.Cut(text, ":")
	t, ok := types[kind]
	if !ok {
		return manifest.Column{}, invalid("column %q is not NAME:TYPE with a type int, float, text or class", text)
	}
	return manifest.Column{Name: name, Type: t}, nil
}

// TypeName returns the type of a column as users write it.
func TypeName(c manifest.Column) string {
	for name, t := range types {
		if t == c.Type {
			return name
		}
	}
	return strconv.Itoa(int(c.Type))
}

// value makes a column's value of a file's content.
func value(c *manifest.Column, content string) (manifest.Value, error) {
	text := strings.TrimSpace(content)
	switch c.Type {
	case manifest.Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return manifest.Value{}, invalid("column %q: %q is not a whole number", c.Name, shorten(text))
		}
		return manifest.Value{Int: n}, nil
	case manifest.Float:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return manifest.Value{}, invalid("column %q: %q is not a number", c.Name, shorten(text))
		}
		return manifest.Value{Float: x}, nil
	case manifest.Class:
		if text == "" || len(text) > manifest.MaxClass || strings.ToValidUTF8(text, "") != text {
			return manifest.Value{}, invalid("column %q: %q cannot be the name of a class", c.Name, shorten(text))
		}
		return manifest.Value{Text: text}, nil
	}
	if strings.ToValidUTF8(content, "") != content {
		return manifest.Value{}, invalid("column %q: the text is not UTF-8", c.Name)
	}
	return manifest.Value{Text: content}, nil
}

// Plain returns a value as JSON has it: a number, or a text.
func Plain(c manifest.Column, v manifest.Value) any {
	switch c.Type {
	case manifest.Int:
		return v.Int
	case manifest.Float:
		return v.Float
	}
	return v.Text
}

// Text returns a value as people write it.
func Text(c manifest.Column, v manifest.Value) string {
	switch {
	case v.Missing:
		return ""
	case c.Type == manifest.Int:
		return strconv.FormatInt(v.Int, 10)
	case c.Type == manifest.Float:
		return strconv.FormatFloat(v.Float, 'g', -1, 64)
	}
	return v.Text
}

func shorten(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}
