package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package p

import "math"

const most = math.MaxInt64

func (b *box) f(i int) bool {
	if i < 3 && i != 0 {
		return true
	}
	return b.true.min(0)
}
`

func TestMutants(t *testing.T) {
	all, err := inFile("p.go", source)
	if err != nil {
		t.Fatal(err)
	}
	var after []string
	for _, m := range all {
		after = append(after, m.after)
		if changed := source[:m.from] + m.text + source[m.to:]; !strings.Contains(changed, m.after) {
			t.Errorf("%s is not in the changed source", m.after)
		}
	}
	want := []string{
		"const most = (math.MaxInt64 - 1)",
		"if i < 3 || i != 0 {",
		"if i <= 3 && i != 0 {",
		"if i >= 3 && i != 0 {",
		"if i < (3 + 1) && i != 0 {",
		"if i < (3 - 1) && i != 0 {",
		"if i < 3 && i == 0 {",
		"if i < 3 && i != (0 + 1) {",
		"return false",
		"return b.true.min((0 + 1))",
	}
	if strings.Join(after, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(after, "\n"))
	}
	if all[1].where != "box.f" || all[1].line != 8 {
		t.Errorf("%s in line %d", all[1].where, all[1].line)
	}
}

func TestListIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	text := "# what\n\np.go f\n- a < b\n+ a <= b\n= never equal\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := readList(path)
	if err != nil || len(list) != 1 || list["p.go f\n- a < b\n+ a <= b"] != "never equal" {
		t.Errorf("%v, %v", list, err)
	}
}

// A small package with one test shows every outcome.
func TestOutcomes(t *testing.T) {
	pkg := t.TempDir()
	for name, text := range map[string]string{
		"p.go":      "package p\n\nfunc f(i int) int {\n\tfor i < 3 {\n\t\ti += 1\n\t}\n\treturn i\n}\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif f(5) != 5 {\n\t\tt.Error()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(pkg, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := newLab(pkg, 2e9)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	at := strings.Index("package p\n\nfunc f(i int) int {\n\tfor i < 3", "<")
	for text, want := range map[string]outcome{"<=": survives, "<>": broken, "< 9+": noticed, "> 0*": endless} {
		got, err := l.try(mutant{file: "p.go", from: at, to: at + 1, text: text})
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}
