package plugin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// A cost says what a request of a pattern costs: a fixed number of tokens, or
// what a header field of the request says. If the answer has a field that says
// it, the difference is charged or given back then.
type cost struct {
	pattern
	fixed    int64
	request  string // field of the request; "": none
	response string // field of the answer; "": none
	min, max int64  // of what a field says
}

const maxCost = 1_000_000_000

// of is the cost of a request.
func (c *cost) of(r *http.Request) int64 {
	if c.request == "" {
		return c.fixed
	}
	most := int64(-1)
	for _, text := range r.Header.Values(c.request) {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, ok := c.clamp(text)
		if !ok { // what cannot be read is not to be cheap
			n = c.max
		}
		most = max(most, n)
	}
	if most < 0 {
		return c.fixed
	}
	return most
}

// clamp reads a field's number into the range; false if it has none.
func (c *cost) clamp(text string) (int64, bool) {
	digits := strings.TrimSpace(text)
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	if digits = strings.TrimLeft(digits, "0"); len(digits) > 10 {
		return c.max, true
	}
	n := int64(0)
	for _, d := range digits {
		n = 10*n + int64(d-'0')
	}
	return min(max(n, c.min), c.max), true
}

// costOf finds the first cost that matches; nil: one token.
func (s *settings) costOf(t target) *cost {
	for i := range s.costs {
		if s.costs[i].matches(t) {
			return &s.costs[i]
		}
	}
	return nil
}

// tokens is what a request costs by c, which may be nil.
func (c *cost) tokens(r *http.Request) int64 {
	if c == nil {
		return 1
	}
	return c.of(r)
}

// readCosts reads a list of costs, skipping what is unusable.
func readCosts(v any, tell told) []cost {
	tell, done := fewOf(tell)
	defer done()
	var out []cost
	for i, entry := range entriesOf(v, tell) {
		if c, err := readCost(entry); err != nil {
			tell(fmt.Sprintf("[%d]", i), err)
		} else {
			out = append(out, c)
		}
	}
	return out
}

func readCost(v any) (c cost, err error) {
	object, ok := v.(map[string]any)
	if !ok {
		return c, errors.New(`want an object such as {"method": "POST", "path": "/batch", "cost": 5}`)
	}
	if c.pattern, err = parsePattern(object["method"], object["path"]); err != nil {
		return c, err
	}
	c.fixed, c.min, c.max = 1, 1, -1
	for _, name := range sorted(object) {
		v := object[name]
		switch name {
		case "method", "path":
		case "cost":
			c.fixed, err = whole(v, 0, maxCost)
		case "header":
			c.request, err = title(v)
		case "response_header":
			c.response, err = title(v)
		case "min":
			c.min, err = whole(v, 0, maxCost)
		case "max":
			c.max, err = whole(v, 0, maxCost)
		default:
			return c, fmt.Errorf("%s: no such field; there are method, path, cost, header, response_header, min and max", shortened(name))
		}
		if err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
	}
	switch byField := c.request != "" || c.response != ""; {
	case byField && c.max < 0:
		return c, errors.New("max is missing: the most that a field may cost")
	case byField && c.max < c.min:
		return c, fmt.Errorf("max %d is below min %d", c.max, c.min)
	case !byField && object["cost"] == nil:
		return c, errors.New("cost, header or response_header is missing")
	}
	return c, nil
}
