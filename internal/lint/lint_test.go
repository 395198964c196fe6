package lint_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "penstock.dev/penstock"

// allowed says which of our packages each package may import, tests aside. A
// new package needs a line here: where it stands is a decision.
var allowed = map[string][]string{
	"":                           {"internal/object", "internal/wire"},
	"bench/bare":                 {},
	"bench/millions":             {"internal/object", "internal/disk", "internal/store"},
	"bench/onenode":              {},
	"bench/s3":                   {},
	"bench/signed":               {"internal/sigv4"},
	"bench/shuffle":              {"internal/order"},
	"bench/overload":             {"internal/disk", "internal/fault", "internal/httpapi", "internal/server"},
	"cmd/penstock":               {"", "internal/bench", "internal/dataset", "internal/object", "internal/server", "internal/store", "internal/disk", "internal/tree"},
	"internal/auth":              {"internal/object", "internal/cluster", "internal/policy"},
	"internal/bench":             {"", "internal/object", "internal/shard", "internal/wire"},
	"internal/checksum":          {},
	"internal/cluster":           {"internal/object", "internal/disk"},
	"internal/dataset":           {"", "internal/object", "internal/localfile", "internal/manifest", "internal/order", "internal/shard"},
	"internal/disk":              {"internal/object"},
	"internal/door":              {"internal/object"},
	"internal/fault":             {"internal/disk"},
	"internal/httpapi":           {"internal/object", "internal/door", "internal/node", "internal/auth", "internal/policy", "internal/wire", "internal/shard"},
	"internal/index":             {"internal/object", "internal/disk"},
	"internal/lint":              {},
	"internal/localfile":         {"internal/object"},
	"internal/manifest":          {"internal/object"},
	"internal/node":              {"internal/object", "internal/cluster", "internal/store", "internal/shard"},
	"internal/object":            {},
	"internal/object/objecttest": {"internal/object"},
	"internal/order":             {"internal/object"},
	"internal/pack":              {"internal/object", "internal/disk"},
	"internal/policy":            {"internal/object"},
	"internal/s3api":             {"internal/object", "internal/door", "internal/node", "internal/auth", "internal/policy", "internal/checksum", "internal/sigv4"},
	"internal/server":            {"internal/object", "internal/disk", "internal/store", "internal/cluster", "internal/auth", "internal/node", "internal/httpapi", "internal/s3api"},
	"internal/shard":             {"internal/object"},
	"internal/sigv4":             {"internal/object", "internal/checksum"},
	"internal/source":            {"internal/object"},
	"internal/source/dir":        {"internal/object", "internal/localfile", "internal/source"},
	"internal/source/misbehave":  {},
	"internal/source/sourcetest": {"internal/object", "internal/object/objecttest", "internal/source"},
	"internal/source/web":        {"internal/object", "internal/source"},
	"internal/store":             {"internal/object", "internal/checksum", "internal/disk", "internal/pack", "internal/index"},
	"internal/testcluster":       {""},
	"internal/tree":              {"", "internal/object", "internal/localfile"},
	"internal/wire":              {"internal/object"},
	"internal/cluster/clustertest": {
		"internal/object", "internal/cluster",
	},
	"internal/node/nodetest": {"internal/object", "internal/cluster", "internal/node", "internal/object/objecttest", "internal/disk", "internal/fault"},
	"test/chaos":             {"", "internal/object", "internal/testcluster"},
	"test/e2e":               {"", "internal/testcluster"},
}

// nameless are words that say nothing about what is in a package.
var nameless = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "misc", "base", "pkg", "config", "constants", "shared"}

// file is a parsed source file and the package directory it lies in.
type file struct {
	dir  string
	path string
	ast  *ast.File
	fset *token.FileSet
}

// sources parses every Go file of the module. The go tool is not asked: it would
// not notice a change, since the test's result is cached by what it reads itself.
func sources(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	fset := token.NewFileSet()
	var all []file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		if d.IsDir() && (slices.Contains([]string{".git", "build", "bin", "tools", "testdata"}, d.Name())) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(rel))
		if dir == "." {
			dir = ""
		}
		all = append(all, file{dir: dir, path: rel, ast: f, fset: fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d files found: wrong directory?", len(all))
	}
	return all
}

func TestImports(t *testing.T) {
	for _, f := range sources(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		may, known := allowed[f.dir]
		if !known {
			t.Errorf("%s: package %q is not in the table of imports", f.path, f.dir)
			continue
		}
		for _, imp := range f.ast.Imports {
			target := strings.Trim(imp.Path.Value, `"`)
			rest, ours := strings.CutPrefix(target, module)
			if !ours || (rest != "" && rest[0] != '/') {
				continue
			}
			if target := strings.TrimPrefix(rest, "/"); !slices.Contains(may, target) {
				t.Errorf("%s imports %q: package %q may import only %q", f.path, target, f.dir, may)
			}
		}
	}
}

func TestTableHasNoOldNames(t *testing.T) {
	present := make(map[string]bool)
	for _, f := range sources(t) {
		present[f.dir] = true
	}
	for _, dir := range slices.Sorted(maps.Keys(allowed)) {
		if !present[dir] {
			t.Errorf("the table names package %q, which is not there", dir)
		}
	}
}

func TestPackagesSayWhatTheyAre(t *testing.T) {
	documented := make(map[string]bool)
	where := make(map[string]string)
	for _, f := range sources(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		where[f.dir] = f.path
		if f.ast.Doc != nil {
			documented[f.dir] = true
		}
		if slices.Contains(nameless, path.Base(f.dir)) {
			t.Errorf("%s: a package called %q says nothing about what is in it", f.path, path.Base(f.dir))
		}
	}
	for dir, file := range where {
		if !documented[dir] {
			t.Errorf("%s: package %q has no comment that says what it is", file, dir)
		}
	}
}

// TestExportedNamesHaveASentence looks at everything outside sees, except methods
// that only fulfil an interface of the standard library.
func TestExportedNamesHaveASentence(t *testing.T) {
	for _, f := range sources(t) {
		if strings.HasSuffix(f.path, "_test.go") || f.ast.Name.Name == "main" {
			continue
		}
		for _, decl := range f.ast.Decls {
			for name, pos := range undocumented(decl) {
				t.Errorf("%s: %s has no comment", f.fset.Position(pos), name)
			}
		}
	}
}

func undocumented(decl ast.Decl) map[string]token.Pos {
	missing := make(map[string]token.Pos)
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && d.Recv == nil {
			missing[d.Name.Name] = d.Pos()
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					missing[s.Name.Name] = s.Pos()
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						missing[fmt.Sprint(name.Name)] = s.Pos()
					}
				}
			}
		}
	}
	return missing
}
