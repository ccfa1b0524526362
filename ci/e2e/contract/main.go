// Command contract prints everything of Tyk's packages that the plugin uses,
// with its type, as the build in the given folder sees it: once with
// ci/tykapi, once with a Tyk source tree. The two must not differ.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const tyk = "github.com/TykTechnologies/tyk/"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: contract FOLDER   (of the root module; GOWORK chooses the workspace)")
		os.Exit(2)
	}
	lines, err := used(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
	for _, line := range lines {
		fmt.Println(line)
	}
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// used lists what the plugin package uses.
func used(dir string) ([]string, error) {
	packages, err := list(dir)
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string)
	var plugin listed
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			plugin = p
		}
	}
	info, err := check(plugin, exports)
	if err != nil {
		return nil, err
	}
	var lines []string
	for id, object := range info.Uses {
		if p := object.Pkg(); p != nil && strings.HasPrefix(p.Path(), tyk) && id.Name != "_" {
			lines = append(lines, describe(object))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

func list(dir string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-tags=goplugin", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", "./plugin")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// check type-checks the plugin's source against the compiled packages.
func check(p listed, exports map[string]string) (*types.Info, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	_, err := conf.Check(p.ImportPath, fset, files, info)
	return info, err
}

// describe writes an object with the type that its users see. Of a struct they
// see the fields that they name, which are listed by themselves.
func describe(object types.Object) string {
	name := strings.TrimPrefix(object.Pkg().Path(), tyk) + "." + object.Name()
	switch o := object.(type) {
	case *types.TypeName:
		return "type  " + name
	case *types.Const:
		return "const " + name + " " + typeOf(o) // its value may differ: each gateway has its own build
	case *types.Var:
		if o.IsField() {
			return "field " + name + " " + typeOf(o)
		}
	case *types.Func:
		return "func  " + name + strings.TrimPrefix(typeOf(o), "func")
	}
	return "var   " + name + " " + typeOf(object)
}

func typeOf(object types.Object) string {
	if _, anonymous := object.Type().(*types.Struct); anonymous {
		return "struct"
	}
	// Without parameter names, which are free.
	text := written(object.Type())
	if signature, ok := object.Type().(*types.Signature); ok {
		text = "func" + tuple(signature.Params(), signature.Variadic()) + tuple(signature.Results(), false)
	}
	return strings.ReplaceAll(text, "interface{}", "any")
}

// written is a type's name. What Tyk calls another package's type is that type.
func written(t types.Type) string { return types.TypeString(types.Unalias(t), (*types.Package).Path) }

func tuple(t *types.Tuple, variadic bool) string {
	var parts []string
	for i := range t.Len() {
		parts = append(parts, written(t.At(i).Type()))
	}
	text := "(" + strings.Join(parts, ", ") + ")"
	if variadic {
		text += "..."
	}
	return text
}
