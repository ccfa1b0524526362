package plugin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
)

// A target is what a request asks for, as patterns see it.
type target struct{ method, path string }

// targetOf finds a request's target once for all that look at it. Where nobody
// does, it has no path.
func (s *settings) targetOf(r *http.Request, p *plan) (t target) {
	if t.method = r.Method; s.looksAtPaths || p != nil && p.author != nil {
		t.path = s.listen.below(r)
	}
	return t
}

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

// name is what clients are told that a limit of the pattern is called.
func (p pattern) name() string {
	if name := p.String(); len(name) <= 64 {
		return name
	}
	return p.String()[:61] + "..."
}

func (p pattern) matches(t target) bool { return p.takes(t.method) && p.path.MatchString(t.path) }

// takes reports a method that the pattern is for. A HEAD is a GET whose answer
// has no body; some servers take methods in any case.
func (p pattern) takes(method string) bool {
	return p.method == "" || p.method == method || strings.EqualFold(p.method, method) || p.method == http.MethodGet && method == http.MethodHead
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
	if !strings.HasPrefix(p.text, "/") && p.text != "*" || len(p.text) > maxPath {
		return p, errors.New(`path: want one such as "/orders/{id}" or "/reports/*", below the listen path`)
	}
	if strings.ContainsAny(p.text, "?#%") && !strings.ContainsRune(p.text, '{') {
		return p, fmt.Errorf("path: %.40q: a path has no query, and no encoded characters", p.text)
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
		end := closing(rest)
		if end < 0 {
			return nil, fmt.Errorf("path: %.40q has a { without its }", text)
		}
		// The gateway's routes may say what the part looks like.
		if _, form, ok := strings.Cut(rest[1:end], ":"); ok {
			if _, err := regexp.Compile(form); err != nil {
				return nil, fmt.Errorf("path: %.40q: %w", text, err)
			}
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

// closing is where the bracket that text begins with ends, or -1.
func closing(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
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

// below is the request's path without the listen path. A slash that is encoded
// belongs to its part, as it does for the upstream.
func (l listenPath) below(r *http.Request) string {
	p := r.URL.Path
	if r.URL.RawPath != "" {
		p = parts(r.URL.EscapedPath())
	}
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	p = clean(p)
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
	return rest
}

// parts decodes each part of a path by itself.
func parts(escaped string) string {
	list := strings.Split(escaped, "/")
	for i, part := range list {
		if text, err := url.PathUnescape(part); err == nil {
			list[i] = strings.ReplaceAll(text, "/", "%2F")
		}
	}
	return strings.Join(list, "/")
}

// An endpoint has limits of its own.
type endpoint struct {
	pattern
	reading
	replace bool // the key's limits do not count here
	index   int  // in the list as it is written
}

// The most of a list, and of the problems with it that are told.
const (
	maxEndpoints = 1000
	maxProblems  = 10
	maxPath      = 1000
)

// readEndpoints reads a list of endpoints, skipping what is unusable.
func readEndpoints(v any, tell told) []endpoint {
	tell, done := fewOf(tell)
	defer done()
	entries := entriesOf(v, tell)
	if len(entries) > maxEndpoints {
		tell("", fmt.Errorf("%d endpoints; only the first %d count", len(entries), maxEndpoints))
		entries = entries[:maxEndpoints]
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
			e.reading, ok = readLimits(e.name(), object[name], beside{}, func(path string, err error) { tell(".limit"+path, err) })
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

// fewOf tells the first problems, and when it is done how many more there were.
func fewOf(tell told) (few told, done func()) {
	n := 0
	few = func(path string, err error) {
		if n++; n <= maxProblems {
			tell(path, err)
		}
	}
	return few, func() {
		if n > maxProblems {
			tell("", fmt.Errorf("and %d more problems", n-maxProblems))
		}
	}
}

// listCache shares the endpoints of metadata between the many keys that have
// the same, from a policy.
type listCache struct {
	mu   sync.Mutex
	made map[id]madeList
}

type madeList struct {
	endpoints []endpoint
	problems  []func(tell told)
}

// maxLists bounds the cache; those in use live on when it is emptied.
const maxLists = 1024

var endpointLists = listCache{made: make(map[id]madeList)}

func (c *listCache) read(v any, tell told) []endpoint {
	key := valueID(v)
	c.mu.Lock()
	list, ok := c.made[key]
	c.mu.Unlock()
	if !ok {
		list.endpoints = readEndpoints(v, func(path string, err error) {
			list.problems = append(list.problems, func(tell told) { tell(path, err) })
		})
		c.mu.Lock()
		if len(c.made) >= maxLists {
			clear(c.made)
		}
		c.made[key] = list
		c.mu.Unlock()
	}
	for _, problem := range list.problems {
		problem(tell)
	}
	return list.endpoints
}
