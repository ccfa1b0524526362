package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

// rewrites makes requests for a path of the API go to a target.
func rewrites(path, target string) rig.Object {
	return rig.Object{"version_data": rig.Object{"not_versioned": true, "versions": rig.Object{"Default": rig.Object{
		"name": "Default", "use_extended_paths": true,
		"extended_paths": rig.Object{"url_rewrites": []rig.Object{
			{"path": path, "match_pattern": ".*" + path + ".*", "method": "GET", "rewrite_to": target},
		}},
	}}}}
}

var (
	h10      = shared.api(rig.API{ID: "h10", Fields: rewrites("/loop", "tyk://self/landed")})
	h10check = shared.api(rig.API{ID: "h10-check", Fields: rewrites("/loop", "tyk://self/landed?check_limits=true")})
	inner    = shared.api(rig.API{ID: "inner", Fields: rig.Object{"internal": true}})
	outer    = shared.api(rig.API{ID: "outer", Fields: rewrites("/loop", "tyk://inner/landed")})
)

func TestH10SelfLoopPaysOnceAndTwiceWithCheckLimits(t *testing.T) {
	realOnly(t, "loops")
	t.Parallel()
	for api, want := range map[string]int{h10: 4, h10check: 2} {
		c := of(t, api)
		key := c.key(limits("1/h burst 4"))
		c.admits(want, 6, rig.Request{Key: key, Path: "loop"})
	}
}

func TestLoopToAnInternalAPIPaysOnce(t *testing.T) {
	realOnly(t, "loops")
	t.Parallel()
	c := of(t, inner) // whose upstream gets the requests
	key := c.newKey(rig.Key{APIs: []string{inner, outer}, Metadata: limits("1/h burst 4")})
	for i := range 6 {
		r := c.g.Send(context.Background(), rig.Request{Path: "/" + outer + "/loop", Key: key})
		if r.OK() {
			c.served++
		}
		if r.OK() != (i < 4) {
			t.Errorf("request %d: %v", i+1, r)
		}
	}
}

var stripped = shared.api(rig.API{ID: "stripped", Fields: rig.Object{"strip_auth_data": true}})

func TestStrippedCredentialIsLimitedAndDoesNotReachTheUpstream(t *testing.T) {
	t.Parallel()
	c := of(t, stripped)
	key := c.key(limits("1/h burst 3"))
	if r := c.get(key); !r.OK() || strings.Contains(r.Body, key) {
		t.Errorf("%v", r)
	}
	c.admits(2, 4, rig.Request{Key: key})
}

var twoLimiters = shared.api(rig.API{ID: "two-limiters", Fields: rig.Object{"disable_rate_limit": false}})

func TestTyksOwnLimiterAppliesBesideThePlugin(t *testing.T) {
	realOnly(t, "limiter of its own")
	t.Parallel()
	c := of(t, twoLimiters)
	tight := rig.Object{"rate": 2, "per": 3600}
	byTyk := c.newKey(rig.Key{Fields: tight, Metadata: limits("100/s"), APIs: []string{c.api}})
	byPlugin := c.newKey(rig.Key{Fields: rig.Object{"rate": 1000, "per": 1}, Metadata: limits("1/h burst 3"), APIs: []string{c.api}})
	for key, refusedByPlugin := range map[string]bool{byTyk: false, byPlugin: true} {
		var refused rig.Reply
		for range 8 {
			if r := c.get(key); r.Refused() {
				refused = r
			}
		}
		if refused.Status == 0 || (refused.Header.Get("Retry-After") != "") != refusedByPlugin {
			t.Errorf("refused by the plugin: want %v, got %v", refusedByPlugin, refused)
		}
	}
}

func TestNoHeaderIsDoubled(t *testing.T) {
	for _, mode := range []string{"quotas", "rate_limits"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := own(t, rig.Options{APIs: []rig.API{{ID: "headers"}}, Conf: rig.Object{"rate_limit_response_headers": mode}})
			c := clientOf(t, g, "headers")
			key := c.key(limits("1/h burst 2"))
			admitted, later, refused := c.get(key), c.get(key), c.wantRefused(key)
			for _, r := range []rig.Reply{admitted, later, refused} {
				for name, values := range r.Header {
					if len(values) != 1 {
						t.Errorf("%d times %s: %v", len(values), name, r)
					}
				}
				for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
					if r.Header.Get(name) == "" {
						t.Errorf("no %s: %v", name, r)
					}
				}
			}
			for name, want := range map[string]string{"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "0", "RateLimit": `"default";r=0;t=7200`} {
				if got := refused.Header.Get(name); got != want {
					t.Errorf("refused with %s: %s, want %s", name, got, want)
				}
			}
		})
	}
}

var reloaded = shared.api(rig.API{ID: "reloaded-under-traffic"})

func TestNoRequestIsLostOverReloads(t *testing.T) {
	g := own(t, rig.Options{APIs: []rig.API{{ID: reloaded}}})
	c := clientOf(t, g, reloaded)
	key := c.key(limits("200/s burst 20"))
	var stop atomic.Bool
	done := make(chan replies)
	go func() {
		done <- c.flood(3, key, func(int) bool { return stop.Load() })
	}()
	for range 5 {
		if err := g.Reload(context.Background()); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	rs := <-done
	for _, r := range rs {
		if !r.OK() && !r.Refused() {
			t.Fatalf("lost: %v", r)
		}
	}
	rs.check(t, 200, 20)
}

var upgraded = shared.api(rig.API{ID: "upgraded"})

func TestWebsocketUpgradeCostsOneToken(t *testing.T) {
	g := own(t, rig.Options{APIs: []rig.API{{ID: upgraded}}, Conf: rig.Object{
		"http_server_options": rig.Object{"enable_websockets": true, "enable_path_prefix_matching": true}}})
	c := clientOf(t, g, upgraded)
	key := c.key(limits("1/h burst 3"))
	c.admits(1, 1, rig.Request{Key: key})
	for i, want := range []int{101, 101, 429} {
		status, echo := upgrade(t, g.URL, "/"+upgraded+"/ws", key)
		if status != want || want == 101 && echo != "hello\n" {
			t.Errorf("upgrade %d: %d %q, want %d", i+1, status, echo, want)
		}
		if status == 101 {
			c.served++
		}
	}
}

// upgrade asks for a websocket and, if it gets one, for an echo.
func upgrade(t *testing.T, url, path, key string) (status int, echo string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, key)
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		fmt.Fprint(conn, "hello\n")
		if echo, err = reader.ReadString('\n'); err != nil {
			t.Error(err)
		}
	}
	return res.StatusCode, echo
}

func TestTwoGatewaysOnOneRedisEachCountByThemselves(t *testing.T) {
	realOnly(t, "Redis")
	t.Parallel()
	api := rig.API{ID: "two-gateways"}
	first := own(t, rig.Options{APIs: []rig.API{api}})
	second := own(t, rig.Options{APIs: []rig.API{api}, Conf: rig.Object{
		"storage": rig.Object{"type": "redis", "host": "127.0.0.1", "port": first.RedisPort()}}})
	c := clientOf(t, first, api.ID)
	key := c.key(limits("1/h burst 3"))
	c.admits(3, 5, rig.Request{Key: key})
	clientOf(t, second, api.ID).admits(3, 5, rig.Request{Key: key})
}

// A second build of the plugin loads beside the first if it has a build id;
// with the same module path it does not, and the log says why (H23).
func TestH23SecondBuildInOneGateway(t *testing.T) {
	realOnly(t, "compiler workspace")
	t.Parallel()
	beside, err := theRig.PluginWith("release2")
	if err != nil {
		t.Fatal(err)
	}
	again, err := theRig.PluginWith("")
	if err != nil {
		t.Fatal(err)
	}
	g := own(t, rig.Options{APIs: []rig.API{
		{ID: "build-1", Plugin: rig.FromFile},
		{ID: "build-2", Plugin: rig.FromFile, File: beside},
		{ID: "build-1-again", Plugin: rig.FromFile, File: again},
	}})
	works := func(api string) bool {
		c := clientOf(t, g, api)
		key := c.key(limits("1/h burst 3"))
		if r := c.get(key); r.Status == http.StatusInternalServerError {
			return false
		}
		c.admits(2, 4, rig.Request{Key: key})
		return true
	}
	if !works("build-2") {
		t.Error("a build with a build id does not load beside the first")
	}
	if works("build-1") == works("build-1-again") { // whichever came first
		t.Error("want one of two builds of the same module path")
	}
	if len(g.Log.Lines("plugin already loaded")) == 0 {
		t.Error("the log does not say that the plugin is already loaded")
	}
	if lines := g.Log.Lines("tyk-token-bucket", "loaded:"); len(lines) != 2 {
		t.Errorf("loaded %d times: %q", len(lines), lines)
	}
}

func TestGatewayLoadsEverySymbol(t *testing.T) {
	realOnly(t, "plugin command")
	t.Parallel()
	for _, symbol := range []string{"RateLimitPre", "RateLimitPostKeyAuth", "RateLimitResponse"} {
		if out, err := theRig.LoadSymbol(symbol); err != nil || !strings.Contains(out, "loaded ok") {
			t.Errorf("%s: %v, %s", symbol, err, out)
		}
	}
}
