package plugin

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
)

// A pattern is a method and a path: of some requests.
type pattern struct {
	method string // "": any
	text   string
	path   *regexp.Regexp
}

func (p pattern) String() string {
	if p.method == "" {
		return p.text
	}
	return p.method + " " + p.text
}

func (p pattern) matches(method, path string) bool {
	return (p.method == "" || p.method == method) && p.path.MatchString(path)
}

// parsePattern compiles a path in which {name} stands for a part without a
// slash, and * for anything. Everything else stands for itself.
func parsePattern(method, text any) (p pattern, err error) {
	if method != nil && method != "*" {
		m, _ := method.(string)
		if p.method = strings.ToUpper(strings.TrimSpace(m)); p.method == "" || strings.Trim(p.method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			return p, errors.New(`method: want one such as "GET", or none for any`)
		}
	}
	p.text, _ = text.(string)
	if !strings.HasPrefix(p.text, "/") && p.text != "*" {
		return p, errors.New(`path: want one such as "/orders/{id}" or "/reports/*", below the listen path`)
	}
	p.path, err = compilePath(clean(p.text), "$")
	return p, err
}

// compilePath makes the expression of what begins with a path; after is the
// expression of the rest.
func compilePath(text, after string) (*regexp.Regexp, error) {
	var b strings.Builder
	for rest := text; rest != ""; {
		i := strings.IndexAny(rest, "*{")
		if i < 0 {
			i = len(rest)
		}
		b.WriteString(regexp.QuoteMeta(rest[:i]))
		if rest = rest[i:]; rest == "" {
			break
		}
		if rest[0] == '*' {
			b.WriteString(".*")
			rest = rest[1:]
			continue
		}
		end := strings.IndexByte(rest, '}')
		if end < 0 {
			return nil, fmt.Errorf("path: %.40q has a { without its }", text)
		}
		// The gateway's routes may say what the part looks like.
		if _, form, ok := strings.Cut(rest[1:end], ":"); ok {
			b.WriteString("(?:" + form + ")")
		} else {
			b.WriteString("[^/]+")
		}
		rest = rest[end+1:]
	}
	re, err := regexp.Compile("(?s)^" + b.String() + after)
	if err != nil {
		return nil, fmt.Errorf("path: %.40q: %w", text, err)
	}
	return re, nil
}

// clean spells a path in the one way that patterns are matched with: the same
// endpoint must not have a bucket for each of its spellings.
func clean(p string) string {
	if strings.Contains(p, "//") || strings.Contains(p, "/.") {
		p = path.Clean(p)
	}
	if len(p) > 1 {
		p = strings.TrimSuffix(p, "/")
	}
	return p
}

// listenPath is what the gateway's route puts before the paths of an API.
type listenPath struct {
	text string
	path *regexp.Regexp // nil: text stands for itself
}

func newListenPath(text string) (l listenPath, err error) {
	l.text = strings.TrimSuffix(text, "/")
	if strings.ContainsRune(text, '{') {
		l.path, err = compilePath(l.text, "")
	}
	return l, err
}

// below is the request's path without the listen path.
func (l listenPath) below(r *http.Request) string {
	p := r.URL.Path
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	rest, ok := p, false
	if l.path != nil {
		if at := l.path.FindStringIndex(p); at != nil {
			rest, ok = p[at[1]:], true
		}
	} else {
		rest, ok = strings.CutPrefix(p, l.text)
	}
	if !ok || rest != "" && rest[0] != '/' {
		rest = p
	}
	if rest == "" {
		rest = "/"
	}
	return clean(rest)
}

// An endpoint has limits of its own.
type endpoint struct {
	pattern
	reading
	replace bool // the key's limits do not count here
	index   int  // in the list as it is written
}

// readEndpoints reads a list of endpoints, skipping what is unusable.
func readEndpoints(v any, tell told) []endpoint {
	entries, err := list(v)
	if err != nil {
		tell("", err)
		return nil
	}
	var out []endpoint
	for i, entry := range entries {
		at := fmt.Sprintf("[%d]", i)
		if e, ok := readEndpoint(entry, func(path string, err error) { tell(at+path, err) }); ok {
			e.index = i
			out = append(out, e)
		}
	}
	return out
}

func readEndpoint(v any, tell told) (e endpoint, ok bool) {
	object, isObject := v.(map[string]any)
	if !isObject {
		tell("", errors.New(`want an object such as {"method": "POST", "path": "/orders", "limit": "10/m"}`))
		return e, false
	}
	var err error
	if e.pattern, err = parsePattern(object["method"], object["path"]); err != nil {
		tell("", err)
		return e, false
	}
	if object["limit"] == nil {
		tell("", errors.New("limit is missing"))
		return e, false
	}
	for _, name := range sorted(object) {
		switch name {
		case "method", "path":
		case "limit":
			e.reading, ok = readLimits(e.String(), object[name], beside{}, func(path string, err error) { tell(".limit"+path, err) })
		case "replace":
			if e.replace, err = boolean(object[name]); err != nil {
				tell(".replace", err)
			}
		default:
			tell("."+shortened(name), errors.New("no such field; there are method, path, limit and replace"))
		}
	}
	return e, ok
}
