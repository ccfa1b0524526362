package e2e

import (
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

var (
	besideTyk  = shared.api(rig.API{ID: "beside-tyk", Fields: rig.Object{"disable_rate_limit": false}})
	withoutTyk = shared.api(rig.API{ID: "without-tyk"})
)

// Tyk's own limiter says no with no Retry-After. The plugin stands before it,
// so that what Tyk refuses has paid.
func TestBothLimitersApplyAndOnlyThePluginWhenTyksIsOff(t *testing.T) {
	realOnly(t, "limiter of its own")
	t.Parallel()
	clients := map[string]*client{besideTyk: of(t, besideTyk), withoutTyk: of(t, withoutTyk)}
	for _, step := range []struct {
		api                       string
		tyk                       float64 // an hour
		plugin                    string
		admitted, byTyk, byPlugin int // of ten
	}{
		{besideTyk, 2, "1/h burst 5", 2, 3, 5},
		{besideTyk, 2, "1000/s", 2, 8, 0},
		{besideTyk, 1000, "1/h burst 5", 5, 0, 5},
		{withoutTyk, 2, "1/h burst 5", 5, 0, 5},
	} {
		c := clients[step.api]
		key := c.newKey(rig.Key{Metadata: limits(step.plugin), Fields: rig.Object{"rate": step.tyk, "per": 3600}})
		var admitted, byTyk, byPlugin int
		for range 10 {
			switch r := c.get(key); {
			case r.OK():
				admitted++
			case r.Refused() && r.Header.Get("Retry-After") == "":
				byTyk++
			case r.Refused():
				byPlugin++
			default:
				t.Errorf("%s: %v", step.api, r)
			}
		}
		if admitted != step.admitted || byTyk != step.byTyk || byPlugin != step.byPlugin {
			t.Errorf("%+v: %d admitted, %d refused by Tyk, %d by the plugin", step, admitted, byTyk, byPlugin)
		}
	}
}
