package e2e

import (
	"context"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

// realOnly skips a case that the development gateway cannot show, and says why.
func realOnly(t *testing.T, lacks string) {
	t.Helper()
	if !theRig.Real() {
		t.Skipf("the development gateway has no %s; set TYK_BIN and TYK_SRC", lacks)
	}
}

// own starts a gateway for one case.
func own(t *testing.T, o rig.Options) *rig.Gateway {
	t.Helper()
	g, err := theRig.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// admits sends n requests one after the other and wants so many admitted, the
// first ones, and the others refused.
func (c *client) admits(want, n int, q rig.Request) {
	c.t.Helper()
	for i := range n {
		if r := c.send(q); r.OK() != (i < want) || r.Refused() == (i < want) {
			c.t.Fatalf("%s: request %d of %d, of which %d are admitted: %v", c.api, i+1, n, want, r)
		}
	}
}
