package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

func TestGatewayLoadsEverySymbol(t *testing.T) {
	realOnly(t, "plugin command")
	t.Parallel()
	for _, symbol := range []string{"RateLimitPre", "RateLimitPostKeyAuth", "RateLimitResponse"} {
		if out, err := theRig.LoadSymbol(symbol); err != nil || !strings.Contains(out, "loaded ok") {
			t.Errorf("%s: %v, %s", symbol, err, out)
		}
	}
}

// release puts a build of the plugin with a build id into a bundle.
func release(t *testing.T, name, buildID string) {
	t.Helper()
	so, err := theRig.PluginWith(buildID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theRig.BundleTool("build", "-manifest", "manifest.json", "-o", theRig.BundlePath(name), so); err != nil {
		t.Fatal(err)
	}
}

// load defines an API in a gateway that serves.
func load(t *testing.T, g *rig.Gateway, api rig.API) {
	t.Helper()
	if err := g.Define(api); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// A new release comes into a gateway that serves. With a build id it loads
// beside the old one; with the same module path Go loads it only after a
// restart, and the log says so.
func TestH23NewReleaseInARunningGateway(t *testing.T) {
	realOnly(t, "compiler workspace")
	t.Parallel()
	release(t, "release-2.zip", "release2")
	if err := theRig.MakeBundle("no-build-id.zip", true); err != nil { // other code, the same module path
		t.Fatal(err)
	}
	g := own(t, rig.Options{APIs: []rig.API{{ID: "first-api"}}})
	first := clientOf(t, g, "first-api")
	drained := first.key(limits("1/h burst 3"))
	first.admits(3, 4, rig.Request{Key: drained})

	load(t, g, rig.API{ID: "second-api", Bundle: "release-2.zip"})
	second := clientOf(t, g, "second-api")
	second.admits(3, 5, rig.Request{Key: second.key(limits("1/h burst 3"))})
	first.admits(0, 2, rig.Request{Key: drained})

	load(t, g, rig.API{ID: "third-api", Bundle: "no-build-id.zip"})
	third := clientOf(t, g, "third-api")
	if r := third.get(third.key(nil)); r.Status != http.StatusInternalServerError {
		t.Errorf("a second build of the same module path: %v, want 500", r)
	}
	if len(g.Log.Lines("plugin already loaded")) == 0 {
		t.Error("the log does not say that the plugin is already loaded")
	}
	first.admits(0, 2, rig.Request{Key: drained})

	// The old API goes over to the new release, whose buckets are its own.
	load(t, g, rig.API{ID: "first-api", Bundle: "release-2.zip"})
	first.admits(3, 5, rig.Request{Key: drained})
	if lines := g.Log.Lines("tyk-token-bucket", "loaded:"); len(lines) != 2 {
		t.Errorf("loaded %d times: %q", len(lines), lines)
	}
}
