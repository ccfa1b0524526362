package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

var (
	shadow       = shared.api(rig.API{ID: "shadow", RateLimit: rig.Object{"mode": "shadow", "shadow_header": true, "default": "1/h burst 2"}})
	shadowBeside = shared.api(rig.API{ID: "shadow-beside"})
	shadowLimit  = shared.api(rig.API{ID: "shadow-limit", RateLimit: rig.Object{"shadow_header": true}})
)

func TestShadowModeRefusesNobodyAndSaysWhom(t *testing.T) {
	t.Parallel()
	for api, metadata := range map[string]rig.Object{
		shadow:      nil,
		shadowLimit: limits(rig.Object{"rate": 1, "per": "1h", "burst": 2, "shadow": true}),
	} {
		c := of(t, api)
		alias := api + "-alias"
		key := c.newKey(rig.Key{Metadata: metadata, Fields: rig.Object{"alias": alias}})
		for i := range 6 {
			r := c.get(key)
			if told := r.Header.Get("RateLimit-Shadow") == "would-refuse"; !r.OK() || told != (i >= 2) {
				t.Errorf("%s: request %d: %v", api, i, r)
			}
		}
		if lines := c.g.Log.Lines("warning", alias, "would have been refused"); len(lines) != 1 {
			t.Errorf("%s: %d lines in the log: %q", api, len(lines), lines)
		}
	}
}

func TestShadowLimitBesideAnEnforcedOne(t *testing.T) {
	t.Parallel()
	c := of(t, shadowBeside)
	key := c.key(limits(`[{"rate": "1/h", "burst": 4}, {"rate": "1/h", "burst": 1, "shadow": true}]`))
	c.admits(4, 6, rig.Request{Key: key})
}

// A process loads a plugin from one path only, so those of the bundle with the
// response hook have a gateway of their own.
var (
	hooked   sharedGateway
	refund   = hooked.api(rig.API{ID: "refund", Plugin: rig.ResponseBundle, RateLimit: rig.Object{"refund": []any{"5xx", "429", 408}}})
	settled  = hooked.api(rig.API{ID: "settled", Plugin: rig.ResponseBundle, RateLimit: rig.Object{"costs": []any{rig.Object{"path": "/search", "cost": 10, "response_header": "X-Cost", "min": 0, "max": 50}}}})
	nowhere  = hooked.api(rig.API{ID: "refund-unreachable", Plugin: rig.ResponseBundle, Fields: unreachable("refund-unreachable"), RateLimit: rig.Object{"refund": []any{"5xx"}}})
	statuses = shared.api(rig.API{ID: "status", RateLimit: rig.Object{"status_path": "/rate-limit", "api_total": "1000/s"}})
)

func unreachable(api string) rig.Object {
	return rig.Object{"proxy": rig.Object{"listen_path": "/" + api + "/", "strip_listen_path": true, "target_url": "http://127.0.0.1:1/"}}
}

func TestRefundAfterAFailureOfTheUpstream(t *testing.T) {
	t.Parallel()
	c := clientOf(t, hooked.start(t), refund)
	key := c.key(limits("1/h burst 3"))
	for _, status := range []string{"500", "503", "429", "408", "599"} {
		r := c.send(rig.Request{Key: key, Header: rig.Header{"X-Upstream-Status": status}})
		if !r.OK() || remaining(t, r) != 3 {
			t.Errorf("%s: %v", status, r)
		}
	}
	c.admits(3, 4, rig.Request{Key: key, Header: rig.Header{"X-Upstream-Status": "404"}})
}

// No hook sees an upstream that the gateway cannot reach.
func TestNoRefundWhenTheUpstreamCannotBeReached(t *testing.T) {
	t.Parallel()
	c := clientOf(t, hooked.start(t), nowhere)
	key := c.key(limits("1/h burst 2"))
	for range 2 {
		if r := c.get(key); r.Status < 500 {
			t.Errorf("%v", r)
		}
	}
	c.wantRefused(key)
}

func TestAnswerSettlesTheCost(t *testing.T) {
	t.Parallel()
	c := clientOf(t, hooked.start(t), settled)
	key := c.key(limits("1/h burst 100"))
	for _, step := range []struct {
		cost string
		left int
	}{{"3", 97}, {"", 87}, {"0", 87}, {"17", 70}, {"1000", 20}, {"50", 0}} {
		r := c.send(rig.Request{Key: key, Path: "search", Header: rig.Header{"X-Upstream-Header": "X-Cost: " + step.cost}})
		if got := remaining(t, r); !r.OK() || got != step.left {
			t.Errorf("cost %q: %d left, want %d", step.cost, got, step.left)
		}
	}
	r := c.wantRefused(key) // 30 tokens of debt, and one to take
	if got := r.Header.Get("Retry-After"); got != "111600" && got != "111599" {
		t.Errorf("Retry-After %s", got)
	}
}

func TestStatusPath(t *testing.T) {
	t.Parallel()
	c := of(t, statuses)
	key := c.key(limits("1/h burst 2, 1/d burst 9"))
	c.admits(1, 1, rig.Request{Key: key})
	var body struct {
		Limits []struct {
			Policy, Scope, Limit string
			Burst, Remaining     int
		}
	}
	var r rig.Reply
	for range 10 {
		r = c.send(rig.Request{Key: key, Path: "rate-limit"})
	}
	if err := json.Unmarshal([]byte(r.Body), &body); r.Status != 200 || r.OK() || err != nil || len(body.Limits) != 2 {
		t.Fatalf("%v, %v", err, r)
	}
	hour, day := body.Limits[0], body.Limits[1]
	if hour.Policy != "per-hour" || hour.Limit != "1/h burst 2" || hour.Remaining != 1 || hour.Scope != "key" || day.Policy != "per-day" || day.Burst != 9 {
		t.Errorf("%+v", body)
	}
	if r := c.send(rig.Request{Key: randomKeyPrefix + "status", Path: "rate-limit"}); r.Status != 403 || strings.Contains(r.Body, "limits") {
		t.Errorf("unknown key: %v", r)
	}
	c.admits(1, 2, rig.Request{Key: key})
	if r := c.send(rig.Request{Key: key, Path: "rate-limit"}); r.Status != 200 || !strings.Contains(r.Body, `"remaining": 0`) {
		t.Errorf("a drained key: %v", r)
	}
}

var headerKinds = map[string]string{}

func init() {
	for _, kind := range []string{"ietf", "legacy", "both", "none"} {
		headerKinds[kind] = shared.api(rig.API{ID: "headers-" + kind, RateLimit: rig.Object{"headers": kind, "default": "1/h burst 2"}})
	}
}

func TestKindsOfHeaderFields(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string][2]string{
		"ietf": {fields, fields}, "legacy": {"", ofTyk}, "both": {fields, fields + ofTyk}, "none": {"", ""},
	} {
		c := of(t, headerKinds[kind])
		key := c.key(nil)
		for range 2 {
			wantHeader(t, c.get(key), always+upstream+" "+ofTyk+want[0])
		}
		wantHeader(t, c.wantRefused(key), always+"Retry-After "+want[1])
	}
}
