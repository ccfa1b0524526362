package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// A mutant is the package with one piece of text replaced.
type mutant struct {
	file, where string // where: the function, or what is declared
	line        int
	from, to    int // offsets of the text
	text        string
	before      string // the line without and with the change
	after       string
	again       int // which of equal ones in the same place
}

// String identifies the mutant, however the code around it moves.
func (m mutant) String() string {
	s := fmt.Sprintf("%s %s", m.file, m.where)
	if m.again > 0 {
		s += fmt.Sprintf(" #%d", m.again+1)
	}
	return fmt.Sprintf("%s\n- %s\n+ %s", s, m.before, m.after)
}

// comparisons are what each is changed into: off by the border, and reversed.
var comparisons = map[token.Token][]string{
	token.LSS: {"<=", ">="},
	token.LEQ: {"<", ">"},
	token.GTR: {">=", "<="},
	token.GEQ: {">", "<"},
	token.EQL: {"!="},
	token.NEQ: {"=="},
	// Not comparisons, but what joins them.
	token.LAND: {"||"},
	token.LOR:  {"&&"},
}

// names are constants by name, and functions that choose a side.
var names = map[string][]string{
	"true": {"false"}, "false": {"true"},
	"min": {"max"}, "max": {"min"},
	"math.MaxInt64": {"(math.MaxInt64 - 1)"}, "math.MinInt64": {"(math.MinInt64 + 1)"},
	"time.Minute": {"(2 * time.Minute)", "(time.Minute / 2)"},
}

// mutants are all changes to the package's files that are chosen.
func mutants(pkg string, chosen func(file string) bool) (all []mutant, err error) {
	paths, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") || !chosen(name) {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := inFile(name, string(source))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("nothing to change in %s", pkg)
	}
	return all, nil
}

func inFile(name, source string) (all []mutant, err error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]int)
	for _, d := range tree.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue
		}
		change := func(pos token.Pos, old, text string) {
			at := files.Position(pos)
			m := mutant{file: name, where: declared(d), line: at.Line, from: at.Offset, to: at.Offset + len(old), text: text}
			begin := strings.LastIndexByte(source[:m.from], '\n') + 1
			end := m.to + strings.IndexByte(source[m.to:], '\n')
			m.before = strings.TrimSpace(source[begin:end])
			m.after = strings.TrimSpace(source[begin:m.from] + text + source[m.to:end])
			key := m.String()
			m.again = seen[key]
			seen[key]++
			all = append(all, m)
		}
		ast.Inspect(d, func(n ast.Node) bool { return visit(n, change) })
	}
	return all, nil
}

// visit reports the changes to one node, and whether to look inside it.
func visit(n ast.Node, change func(pos token.Pos, old, text string)) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		for _, op := range comparisons[n.Op] {
			change(n.OpPos, n.Op.String(), op)
		}
	case *ast.BasicLit:
		if n.Kind == token.INT || n.Kind == token.FLOAT {
			change(n.Pos(), n.Value, "("+n.Value+" + 1)")
			if n.Value != "0" {
				change(n.Pos(), n.Value, "("+n.Value+" - 1)")
			}
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			for _, text := range names[x.Name+"."+n.Sel.Name] {
				change(n.Pos(), x.Name+"."+n.Sel.Name, text)
			}
		}
		ast.Inspect(n.X, func(n ast.Node) bool { return visit(n, change) })
		return false // a field may have any name
	case *ast.Ident:
		for _, text := range names[n.Name] {
			change(n.Pos(), n.Name, text)
		}
	}
	return true
}

// declared names a function with its receiver, or what else is declared.
func declared(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		t := d.Recv.List[0].Type
		if star, ok := t.(*ast.StarExpr); ok {
			t = star.X
		}
		return fmt.Sprintf("%s.%s", t, d.Name.Name)
	case *ast.GenDecl:
		switch s := d.Specs[0].(type) {
		case *ast.TypeSpec:
			return s.Name.Name
		case *ast.ValueSpec:
			return s.Names[0].Name
		}
	}
	return "?"
}
