package plugin

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/user"
)

// node is a part of the schema.
type node struct {
	Properties map[string]node `json:"properties"`
	Enum       []any           `json:"enum"`
	AnyOf      []node          `json:"anyOf"`
	Default    any             `json:"default"`
	Pattern    string          `json:"pattern"`
	Defs       map[string]node `json:"$defs"`
}

func schemaOf(t *testing.T) map[string]node {
	t.Helper()
	var root node
	if err := json.Unmarshal([]byte(Schema), &root); err != nil {
		t.Fatal(err)
	}
	return root.Defs
}

func (n node) names() string {
	var names []string
	for name := range n.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// words are the texts of an enumeration.
func (n node) words() string {
	var words []string
	for _, v := range n.Enum {
		words = append(words, v.(string))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// offered are the words that a parser's refusal offers after a mark, in order.
func offered(t *testing.T, mark string, parse func(tell told)) string {
	t.Helper()
	var out []string
	parse(func(_ string, err error) {
		_, list, found := strings.Cut(err.Error(), mark)
		if !found {
			t.Errorf("%q does not offer anything", err)
		}
		out = strings.FieldsFunc(strings.NewReplacer(" and ", ",", " or ", ",", " ", "").Replace(list), func(r rune) bool { return r == ',' })
	})
	slices.Sort(out)
	return strings.Join(out, " ")
}

const thereAre = "there are "

func TestSchemaHasTheFieldsOfTheCode(t *testing.T) {
	defs := schemaOf(t)
	limit := func(tell told) { readLimits(policyName, meta{"rate": 1.0, "?": 1}, beside{}, tell) }
	endpoint := func(tell told) { readEndpoints(meta{"path": "/", "limit": 1.0, "?": 1}, tell) }
	cost := func(tell told) { readCosts(meta{"path": "/", "cost": 1.0, "?": 1}, tell) }
	setting := func(tell told) { newSettings(definition{config: limits(meta{"?": 1})}, tell) }
	for name, want := range map[string]string{
		"settings": strings.Join(sortedSetters(), " "),
		"limit":    offered(t, thereAre, limit),
		"endpoint": offered(t, thereAre, endpoint),
		"cost":     offered(t, thereAre, cost),
		"metadata": strings.Join(metadataFields(t), " "),
	} {
		if got := defs[name].names(); got != want {
			t.Errorf("%s: the schema has %s, the code %s", name, got, want)
		}
	}
	if got := offered(t, thereAre, setting); got != defs["settings"].names() {
		t.Errorf("the log offers %s", got)
	}
}

// metadataFields are the names that a plan is made from, as the code has them.
func metadataFields(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "fingerprint.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, _ := strconv.Unquote(lit.Value); strings.HasPrefix(text, "ratelimit") {
				names = append(names, text)
			}
		}
		return true
	})
	slices.Sort(names)
	return slices.Compact(names)
}

func TestSchemaHasTheFieldsThatAreRead(t *testing.T) {
	defs := schemaOf(t)
	for name := range defs["metadata"].Properties {
		if inputsOf(&user.SessionState{MetaData: meta{name: "1/s"}}, "a", nil) == inputsOf(&user.SessionState{}, "a", nil) {
			t.Errorf("%s changes nothing", name)
		}
	}
	none := func(path string, err error) {
		if strings.Contains(err.Error(), "no such") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for name, read := range map[string]func(object meta){
		"settings": func(object meta) { newSettings(definition{config: limits(object)}, none) },
		"limit":    func(object meta) { object["rate"] = 1.0; readLimits(policyName, object, beside{}, none) },
		"endpoint": func(object meta) { object["path"], object["limit"] = "/", 1.0; readEndpoints(object, none) },
		"cost":     func(object meta) { object["path"] = "/"; readCosts(object, none) },
	} {
		for field := range defs[name].Properties {
			read(meta{field: "x"})
		}
	}
}

func TestSchemaHasTheWordsOfTheCode(t *testing.T) {
	defs := schemaOf(t)
	for _, name := range []string{"mode", "on_fault", "headers"} {
		n := defs["settings"].Properties[name]
		want := offered(t, "want ", func(tell told) { setters[name](&settings{}, nil, "?", tell) })
		if got := n.words(); got != want {
			t.Errorf("%s: the schema has %s, the code %s", name, got, want)
		}
		for _, word := range n.Enum {
			setters[name](&settings{}, nil, word, func(_ string, err error) { t.Errorf("%s: %v: %v", name, word, err) })
		}
	}
	scope := defs["scope"]
	want := offered(t, "want ", func(tell told) { _, err := parseScope("?"); tell("", err) })
	if got := scope.AnyOf[0].words(); got+" metadata:<name>" != wantLast(want, "metadata:<name>") {
		t.Errorf("scope: the schema has %s, the code %s", got, want)
	}
	for _, word := range append(scope.AnyOf[0].Enum, "metadata:x") {
		if _, err := parseScope(word); err != nil {
			t.Error(err)
		}
	}
	for _, word := range defs["boolean"].Enum {
		if _, err := boolean(word); err != nil {
			t.Errorf("%v: %v", word, err)
		}
	}
}

// wantLast puts a word at the end of a sorted list.
func wantLast(list, word string) string {
	words := slices.DeleteFunc(strings.Fields(list), func(w string) bool { return w == word })
	return strings.Join(append(words, word), " ")
}

// The defaults of the schema are the code's: to set them changes nothing.
func TestSchemaHasTheDefaultsOfTheCode(t *testing.T) {
	section := meta{}
	for name, n := range schemaOf(t)["settings"].Properties {
		if n.Default != nil {
			section[name] = n.Default
		}
	}
	explained := func(config meta) string {
		r, err := Explain(Question{Classic: &apidef.APIDefinition{APIID: "a", ConfigData: config}})
		if err != nil || len(r.Unusable) > 0 {
			t.Errorf("%v %v", err, r)
		}
		return toJSON(t, r)
	}
	if with, without := explained(limits(section)), explained(nil); with != without || len(section) < 6 {
		t.Errorf("with the defaults %v:\n%s\nwithout:\n%s", section, with, without)
	}
}

// An example is settings or metadata; the test of package e2e holds the schema
// against the same ones.
type example struct {
	Settings any    `json:"settings"`
	Metadata meta   `json:"metadata"`
	Usable   bool   `json:"usable"` // of those beyond the schema
	Why      string `json:"why"`
}

func examples(t *testing.T, name string) (out []example) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "schema", name))
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil || len(out) == 0 {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

func TestExamplesAreWhatTheySay(t *testing.T) {
	for _, name := range []string{"valid.json", "invalid.json", "beyond.json"} {
		for _, e := range examples(t, name) {
			q := Question{Classic: &apidef.APIDefinition{APIID: "a", ConfigData: meta{"ratelimit": e.Settings}}, Session: &user.SessionState{MetaData: e.Metadata}}
			r, err := Explain(q)
			if err != nil {
				t.Fatal(err)
			}
			usable := name == "valid.json" || name == "beyond.json" && e.Usable
			if got := len(r.Unusable) == 0; got != usable || (name == "beyond.json") != (e.Why != "") {
				t.Errorf("%s: %s: usable %v: %v", name, toJSON(t, e), got, r.Unusable)
			}
		}
	}
}

// The patterns of the schema, of readable parts: a schema has no way to leave
// out the case, and Go's expressions none to look ahead.
func patterns() map[string]string {
	anyCase := func(words ...string) string {
		letters := regexp.MustCompile("[a-z]")
		text := letters.ReplaceAllStringFunc(strings.Join(words, "|"), func(c string) string { return "[" + c + strings.ToUpper(c) + "]" })
		return "(?:" + text + ")"
	}
	const (
		count   = `\+?[0-9]*[1-9][0-9]*`
		decimal = `(?:[0-9]+\.?[0-9]*|\.[0-9]+)`
		above0  = `\+?(?:[0-9]*[1-9][0-9]*\.?[0-9]*|[0-9]*\.[0-9]*[1-9][0-9]*)`
		number  = above0 + `(?:[eE][+-]?[0-9]+)?`
		zero    = `(?:[+-]?(?:0+\.?0*|\.0+)|-1(?:\.0*)?)`
	)
	unit := anyCase("d", "day", "days", "h", "hour", "hours", "hr", "m", "min", "minute", "minutes", "s", "sec", "second", "seconds", "ms", "us", "ns")
	small := anyCase("ns", "us", "\u00b5s", "\u03bcs", "ms", "s", "m", "h") // those of Go's durations
	period := `\s*(?:(?:` + count + ` *)?` + unit + `|` + above0 + small + `(?:` + decimal + small + `)*)\s*`
	per := `\s*(?:/|` + anyCase("per") + `)` + period
	burst := `(?:\s*` + anyCase("burst") + `\s*` + count + `\s*)?`
	window := `\s*` + number + per + burst
	return map[string]string{
		"limitedRate":   `^\s*` + number + `(?:` + per + `)?` + burst + `\s*$`,
		"unlimitedRate": `^(?:\s*` + anyCase("unlimited") + `\s*|\s*` + zero + `(?:` + per + `)?\s*)$`,
		"windowsText":   `^` + window + `(?:,` + window + `){1,7}$`,
		"periodText":    `^(?:\s*` + number + `\s*|` + period + `)$`,
		"burst":         `^\s*` + count + `\s*$`,
	}
}

func TestSchemaHasThePatterns(t *testing.T) {
	defs := schemaOf(t)
	for name, want := range patterns() {
		n := defs[name]
		if len(n.AnyOf) > 0 {
			n = n.AnyOf[len(n.AnyOf)-1]
		}
		if n.Pattern != want {
			text, err := json.Marshal(want)
			t.Errorf("%s: want %s, %v", name, text, errors.Join(err))
		}
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
