package plugin

import "testing"

// The session of a JWT's subject is made at its first request, without the
// metadata of its policy. The limit that is learned from it is used up by then.
func TestLimitOfAFirstSessionIsNotFrozen(t *testing.T) {
	h := newHost(t)
	api := keyed("a", limits(meta{"default": "1/h burst 1"}))
	s := h.key("k", nil)
	h.expect(h.codes(1, func() outcome { return h.send(api, get("k")) }), "map[200:1]")
	s.MetaData = meta{"ratelimit": "1/h burst 3"}
	h.expect(h.codes(5, func() outcome { return h.send(api, get("k")) }), "map[200:3 429:2]")
}
