package httpapi

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

// doc describes a route for the OpenAPI document.
type doc struct {
	summary string
	detail  string
	params  []param // beside those in the path
	body    *content
	replies []reply // beside errors, which are alike everywhere
}

// param is a parameter, or a header of an answer.
type param struct {
	in      string // header or query
	name    string // a final * stands for any ending, which OpenAPI cannot say
	about   string
	integer bool
}

type content struct {
	kind  string
	about string
	of    any // a value of the type it is the JSON of
}

type reply struct {
	status  int
	about   string
	content string
	of      any
	headers []param
}

type dict = map[string]any // a JSON object

// document builds the OpenAPI description from the table of routes.
func document(table []*route, version string) ([]byte, error) {
	if version == "" {
		version = "unknown"
	}
	s := schemas{}
	paths := dict{}
	for _, r := range table {
		pattern := strings.Replace(r.pattern, "*", "{profile}", 1)
		operations, ok := paths[pattern].(dict)
		if !ok {
			operations = dict{}
			paths[pattern] = operations
		}
		operations[strings.ToLower(r.method)] = r.operation(s)
	}
	return marshal(dict{
		"openapi": "3.1.0",
		"info": dict{
			"title": "Penstock", "version": version,
			"description": "The native HTTP interface of a Penstock node. Keys are taken from the path as it is written: no part of it is cleaned, and what is escaped means itself, so a slash in a key may be written / or %2F.",
			"license":     dict{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"paths":    paths,
		"security": []any{dict{"token": []string{}}},
		"components": dict{
			"schemas": s,
			"securitySchemes": dict{"token": dict{
				"type": "http", "scheme": "bearer",
				"description": "Needed unless the node listens on loopback only and has no user but root.",
			}},
		},
	})
}

func (r *route) operation(s schemas) dict {
	op := dict{"operationId": r.name, "summary": r.doc.summary}
	detail := r.doc.detail
	switch r.access {
	case forRoot:
		detail += " For root only."
	case forAllowed:
		detail += " Needs " + r.action + "."
	}
	if detail = strings.TrimSpace(detail); detail != "" {
		op["description"] = detail
	}
	if r.access == forAll {
		op["security"] = []any{}
	}
	if params := r.parameters(); len(params) > 0 {
		op["parameters"] = params
	}
	if b := r.doc.body; b != nil {
		op["requestBody"] = dict{"description": b.about, "content": dict{b.kind: s.media(b.of)}}
	}
	responses := dict{"default": dict{
		"description": "An error: 400 Invalid, 401 or 403 Denied, 404 NotFound, 409 or 412 Exists, 412 Stale, 500 Corrupt or Internal, 503 Busy or Unavailable with Retry-After. X-Penstock-Error has the kind, too; in answers to HEAD, which have no body, it is \"KIND: MESSAGE\".",
		"content":     dict{jsonContent: s.media(errorBody{})},
	}}
	for _, reply := range r.doc.replies {
		answer := dict{"description": reply.about}
		if reply.content != "" {
			answer["content"] = dict{reply.content: s.media(reply.of)}
		}
		if len(reply.headers) > 0 {
			headers := dict{}
			for _, h := range reply.headers {
				headers[h.name] = dict{"description": h.about, "schema": dict{"type": "string"}}
			}
			answer["headers"] = headers
		}
		responses[strconv.Itoa(reply.status)] = answer
	}
	op["responses"] = responses
	return op
}

func (r *route) parameters() []any {
	var all []any
	inPath := map[string]string{
		"{bucket}": "The bucket.", "{dataset}": "The dataset.", "{version}": "The number of the version, from 1.", "{user}": "The user's name.",
		"{key}": "The key, escaped: any UTF-8 of 1 to 1024 bytes. Slashes may stand as they are.", "*": "The profile.",
	}
	for _, name := range []string{"{bucket}", "{key}", "{dataset}", "{version}", "{user}", "*"} {
		if strings.Contains(r.pattern, name) {
			plain := strings.Trim(strings.Replace(name, "*", "profile", 1), "{}")
			all = append(all, dict{"in": "path", "name": plain, "required": true, "description": inPath[name], "schema": dict{"type": "string"}})
		}
	}
	for _, p := range r.doc.params {
		kind := "string"
		if p.integer {
			kind = "integer"
		}
		all = append(all, dict{"in": p.in, "name": p.name, "description": p.about, "schema": dict{"type": kind}})
	}
	return all
}

// schemas are the shapes of JSON, by name, made from the types that are sent.
type schemas map[string]any

func (s schemas) media(of any) dict {
	if of == nil {
		return dict{}
	}
	return dict{"schema": s.schema(reflect.TypeOf(of))}
}

func (s schemas) schema(t reflect.Type) dict {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return dict{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return s.schema(t.Elem())
	case t.Kind() == reflect.Slice:
		return dict{"type": "array", "items": s.schema(t.Elem())}
	case t.Kind() == reflect.Map:
		return dict{"type": "object", "additionalProperties": s.schema(t.Elem())}
	case t.Kind() == reflect.Struct:
		return s.structure(t)
	case t.Kind() == reflect.Bool:
		return dict{"type": "boolean"}
	case t.Kind() == reflect.String:
		return dict{"type": "string"}
	case t.Kind() == reflect.Float64:
		return dict{"type": "number"}
	}
	return dict{"type": "integer"}
}

// structure names a struct's schema after its type, and refers to it.
func (s schemas) structure(t reflect.Type) dict {
	name := strings.TrimSuffix(t.Name(), "JSON")
	name = strings.ToUpper(name[:1]) + name[1:]
	if _, known := s[name]; !known {
		properties, required := dict{}, []string{}
		s[name] = nil // against endless descent
		for _, f := range reflect.VisibleFields(t) {
			if f.Anonymous {
				continue // its fields are seen by themselves
			}
			field, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			properties[field] = s.schema(f.Type)
			if options == "" {
				required = append(required, field)
			}
		}
		s[name] = dict{"type": "object", "properties": properties, "required": required}
	}
	return dict{"$ref": "#/components/schemas/" + name}
}
