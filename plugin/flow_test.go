package plugin

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/ctx"
	"github.com/TykTechnologies/tyk/user"
	"github.com/sirupsen/logrus"
)

// host stands for a gateway: it runs the hooks of one request after the other
// as the gateway does, with a clock that the test moves.
type host struct {
	t    *testing.T
	e    *engine
	log  bytes.Buffer
	now  time.Duration
	keys map[string]*user.SessionState // by credential
}

func newHost(t *testing.T) *host {
	h := &host{t: t, keys: map[string]*user.SessionState{}}
	logger := logrus.New()
	logger.SetOutput(&h.log)
	h.e = newEngine(process{maxKeys: 1000, shards: 4, clock: func() time.Duration { return h.now }}, logger.WithField("prefix", "ratelimit"))
	return h
}

// key makes a key that the gateway will accept.
func (h *host) key(name string, metadata map[string]any) *user.SessionState {
	s := &user.SessionState{OrgID: "org", KeyID: "id-of-" + name, MetaData: metadata}
	h.keys[name] = s
	return s
}

type meta = map[string]any

func keyed(id string, config meta) *apidef.APIDefinition {
	return &apidef.APIDefinition{APIID: id, UseStandardAuth: true, ConfigData: config}
}

func limits(section meta) meta { return meta{"ratelimit": section} }

// outcome is what became of one request.
type outcome struct {
	code          int
	authenticated bool
	header        http.Header
	body          string
}

func get(credential string) *http.Request {
	r := httptest.NewRequest("GET", "/demo/", nil)
	r.Header.Set("Authorization", credential)
	return r
}

func (h *host) send(api *apidef.APIDefinition, r *http.Request) outcome {
	ctx.SetDefinition(r, api)
	return h.run(api.UseKeylessAccess, r)
}

func (h *host) run(keyless bool, r *http.Request) outcome {
	w := httptest.NewRecorder()
	out := outcome{code: 200}
	done := func() bool {
		answered := w.Code != 200 || w.Body.Len() > 0
		if answered {
			out.code, out.header, out.body = w.Code, w.Header(), w.Body.String()
		}
		return answered
	}
	if h.e.pre(w, r); done() {
		return out
	}
	if !keyless {
		out.authenticated = true
		session := h.keys[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		if session == nil {
			out.code = 403
			return out
		}
		copied := *session
		*r = *r.WithContext(context.WithValue(r.Context(), ctx.SessionData, &copied))
		if h.e.postKeyAuth(w, r); done() {
			return out
		}
		if session.Expires >= 1 && session.Expires < time.Now().Unix() {
			out.code = 401
			return out
		}
	}
	out.header = w.Header()
	return out
}

// codes sends n requests and counts the answers.
func (h *host) codes(n int, send func() outcome) string {
	h.t.Helper()
	count := map[int]int{}
	for range n {
		count[send().code]++
	}
	return fmt.Sprint(count)
}

func (h *host) expect(got, want string) {
	h.t.Helper()
	if got != want {
		h.t.Errorf("got %s, want %s", got, want)
	}
}

func TestRefusesInPreWhatItHasSeenAccepted(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("k", meta{"ratelimit": "1/s burst 3"})
	for i := range 5 {
		got := h.send(api, get("k"))
		if want := i < 3; (got.code == 200) != want || got.authenticated != want {
			t.Errorf("request %d: %+v", i, got)
		}
	}
	h.now += time.Second
	h.expect(h.codes(3, func() outcome { return h.send(api, get("k")) }), "map[200:1 429:2]")
}

// Some requests come before the key is known and some after, from many
// goroutines and over reloads: each is charged once.
func TestConcurrentRequestsAreCountedExactly(t *testing.T) {
	h := newHost(t)
	h.key("k", meta{"ratelimit": "1/h burst 500"})
	var admitted atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			api := keyed("a", nil)
			for range 100 {
				if h.send(api, get("k")).code == 200 {
					admitted.Add(1)
				}
			}
		}()
	}
	all.Wait()
	if n := admitted.Load(); n != 500 {
		t.Errorf("admitted %d, want 500", n)
	}
}

func TestAnswers(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("k", meta{"ratelimit": "1/100s"})
	ok := h.send(api, get("k"))
	if p, f := ok.header.Get("RateLimit-Policy"), ok.header.Get("RateLimit"); p != `"default";q=1;w=100` || f != `"default";r=0;t=100` {
		t.Errorf("allowed: %q %q", p, f)
	}
	for name := range ok.header {
		if strings.HasPrefix(name, "X-") {
			t.Errorf("allowed with %s, which the gateway sets too", name)
		}
	}
	no := h.send(api, get("k"))
	if no.code != 429 || no.header.Get("Retry-After") != "100" || no.header.Get("X-RateLimit-Limit") != "1" || no.body != "{\n    \"error\": \"Rate limit exceeded\"\n}\n" {
		t.Errorf("refused: %+v", no)
	}
	h.now += 100 * time.Second
	h.expect(h.codes(2, func() outcome { return h.send(api, get("k")) }), "map[200:1 429:1]")
}

// The gateway adds the upstream's fields to those that are there already.
func TestFieldsOfTheUpstreamAreRemoved(t *testing.T) {
	h := newHost(t)
	h.key("k", meta{"ratelimit": "10/s"})
	limited, unlimited := get("k"), get("unknown")
	h.send(keyed("a", nil), limited)
	h.send(keyed("a", nil), unlimited)
	for _, c := range []struct {
		r    *http.Request
		left int
	}{{limited, 1}, {unlimited, 3}} {
		res := &http.Response{Header: http.Header{"Ratelimit": {`"up";r=1;t=1`}, "Ratelimit-Policy": {`"up";q=1;w=1`}, "X-Other": {"1"}}}
		if h.e.response(nil, res, c.r); len(res.Header) != c.left {
			t.Errorf("%v", res.Header)
		}
	}
}

func TestRaisedLimitIsLearnedByADrainedKey(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("k", meta{"ratelimit": "1/h burst 2"})
	send := func() outcome { return h.send(api, get("k")) }
	h.expect(h.codes(5, send), "map[200:2 429:3]")
	h.key("k", meta{"ratelimit": "1/s burst 10"})
	h.expect(h.codes(5, send), "map[429:5]")
	h.now += defaultRefresh
	first := send() // goes on to authentication; 2 s at the old limit gave nothing
	if first.code != 429 || !first.authenticated || first.header.Get("Retry-After") != "1" {
		t.Errorf("the look: %+v", first)
	}
	h.expect(fmt.Sprint(send().authenticated), "false")
	h.now += 3 * time.Second
	h.expect(h.codes(5, send), "map[200:3 429:2]")
}

func TestLoweredLimitIsInForceAtOnce(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("k", meta{"ratelimit": "100/s"})
	send := func() outcome { return h.send(api, get("k")) }
	h.expect(h.codes(10, send), "map[200:10]")
	h.now += time.Minute
	h.key("k", meta{"ratelimit": "1/h burst 5"})
	h.expect(h.codes(20, send), "map[200:5 429:15]")
}

func TestRemovedLimitIsUnlimitedAgain(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("k", meta{"ratelimit": "1/h burst 5"})
	send := func() outcome { return h.send(api, get("k")) }
	h.expect(h.codes(2, send), "map[200:2]")
	h.key("k", nil)
	h.expect(h.codes(20, send), "map[200:20]")
}

func TestTwoCredentialsOfOneKeyShareItsBucket(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.keys["jwt-1"] = h.key("subject", meta{"ratelimit": "1/h burst 4"})
	h.keys["jwt-2"] = h.keys["subject"]
	for _, credential := range []string{"jwt-1", "jwt-2", "jwt-1", "Bearer jwt-2"} {
		if got := h.send(api, get(credential)); got.code != 200 {
			t.Errorf("%s: %+v", credential, got)
		}
	}
	for _, credential := range []string{"jwt-1", "jwt-2", "Bearer jwt-1"} {
		if got := h.send(api, get(credential)); got.code != 429 || got.authenticated {
			t.Errorf("%s: %+v", credential, got)
		}
	}
}

func TestRotatedKeyWithTheSameGroupHasNoFreshBurst(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("old", meta{"ratelimit": "1/h burst 4", "ratelimit_group": "customer"})
	h.key("new", meta{"ratelimit": "1/h burst 4", "ratelimit_group": "customer"})
	h.key("foreign", meta{"ratelimit": "1/h burst 4", "ratelimit_group": "customer"}).OrgID = "another"
	h.expect(h.codes(3, func() outcome { return h.send(api, get("old")) }), "map[200:3]")
	h.expect(h.codes(3, func() outcome { return h.send(api, get("new")) }), "map[200:1 429:2]")
	h.expect(h.codes(3, func() outcome { return h.send(api, get("foreign")) }), "map[200:3]")
}

func TestScopeDoesNotDependOnTheOrderOfAPIs(t *testing.T) {
	for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
		h := newHost(t)
		apis := map[string]*apidef.APIDefinition{
			"a": keyed("a", limits(meta{"default": "1/h burst 2"})),
			"b": keyed("b", limits(meta{"default": "1/h burst 3"})),
		}
		h.key("own", meta{"ratelimit": "1/h burst 5"})
		h.key("tyk", nil).Rate = 6
		h.keys["tyk"].Per = 3600
		h.key("none", nil)
		admitted := func(key, api string) string {
			return h.codes(9, func() outcome { return h.send(apis[api], get(key)) })
		}
		h.expect(admitted("own", order[0]), "map[200:5 429:4]")
		h.expect(admitted("own", order[1]), "map[429:9]")
		h.expect(admitted("tyk", order[0]), "map[200:6 429:3]")
		h.expect(admitted("tyk", order[1]), "map[429:9]")
		// An API's default counts for that API alone.
		h.expect(admitted("none", "a"), "map[200:2 429:7]")
		h.expect(admitted("none", "b"), "map[200:3 429:6]")
	}
}

func TestLimitsOfTykForOneAPI(t *testing.T) {
	h := newHost(t)
	s := h.key("k", nil)
	s.Rate, s.Per = 9, 3600
	with := func(rate float64, scope string) user.AccessDefinition {
		var a user.AccessDefinition
		a.Limit.Rate, a.Limit.Per, a.AllowanceScope = rate, 3600, scope
		return a
	}
	s.AccessRights = map[string]user.AccessDefinition{"a": with(2, "a"), "b": with(3, "b"), "c": {}}
	for api, want := range map[string]string{"a": "map[200:2 429:8]", "b": "map[200:3 429:7]", "c": "map[200:9 429:1]"} {
		h.expect(h.codes(10, func() outcome { return h.send(keyed(api, nil), get("k")) }), want)
	}
}

func TestRequestWithoutSession(t *testing.T) {
	h := newHost(t)
	for name, c := range map[string]struct {
		config meta
		want   string
	}{
		"no limit":   {limits(meta{"default": "1/h burst 2"}), "map[200:5]"},
		"by address": {limits(meta{"anonymous": "1/h burst 2"}), "map[200:2 429:3]"},
	} {
		api := keyed(name, c.config)
		h.expect(h.codes(5, func() outcome {
			r := get("")
			ctx.SetDefinition(r, api)
			w := httptest.NewRecorder()
			h.e.pre(w, r)
			h.e.postKeyAuth(w, r)
			return outcome{code: w.Code}
		}), c.want)
	}
}

func TestKeylessAPILimitsEachAddress(t *testing.T) {
	h := newHost(t)
	api := keyed("a", limits(meta{"anonymous": "1/h burst 2", "default": "1/h burst 9"}))
	other := keyed("b", limits(meta{"default": "1/h burst 3"}))
	free := keyed("c", nil)
	for _, a := range []*apidef.APIDefinition{api, other, free} {
		a.UseKeylessAccess, a.UseStandardAuth = true, false
	}
	from := func(api *apidef.APIDefinition, address string) func() outcome {
		return func() outcome {
			r := get("")
			r.Header.Set("X-Real-IP", address)
			return h.send(api, r)
		}
	}
	h.expect(h.codes(5, from(api, "192.0.2.1")), "map[200:2 429:3]")
	h.expect(h.codes(5, from(api, "192.0.2.2")), "map[200:2 429:3]")
	h.expect(h.codes(5, from(other, "192.0.2.1")), "map[200:3 429:2]")
	h.expect(h.codes(50, from(free, "192.0.2.1")), "map[200:50]")
	if got := from(other, "192.0.2.9")(); got.header.Get("RateLimit") == "" {
		t.Error("no RateLimit field on a keyless API")
	}
}

func TestReloadUnchangedKeepsADrainedKeyDrained(t *testing.T) {
	h := newHost(t)
	h.key("k", meta{"ratelimit": "1/h burst 2"})
	h.key("d", nil)
	for i := range 50 {
		api := keyed("a", limits(meta{"default": "1/h burst 3"})) // a new pointer
		got := []outcome{h.send(api, get("k")), h.send(api, get("d"))}
		if (got[0].code == 200) != (i < 2) || (got[1].code == 200) != (i < 3) || i > 3 && got[0].authenticated {
			t.Fatalf("reload %d: %+v", i, got)
		}
	}
	if n := len(h.e.apis.byAPI["a"].definitions); n != 2 {
		t.Errorf("%d definitions are kept", n)
	}
}

func TestReloadWithAnotherDefault(t *testing.T) {
	h := newHost(t)
	h.key("k", nil)
	before, after := keyed("a", limits(meta{"default": "1/h burst 50"})), keyed("a", limits(meta{"default": "1/h burst 3"}))
	h.expect(h.codes(5, func() outcome { return h.send(before, get("k")) }), "map[200:5]")
	h.expect(h.codes(5, func() outcome { return h.send(after, get("k")) }), "map[200:3 429:2]")
	// A request that is still under way with the definition from before.
	h.expect(h.codes(1, func() outcome { return h.send(before, get("k")) }), "map[429:1]")
}

func TestCredentialThatBecomesAnotherKey(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("c", meta{"ratelimit": "1/h burst 3"})
	first := h.keys["c"]
	h.expect(h.codes(2, func() outcome { return h.send(api, get("c")) }), "map[200:2]")
	h.keys["c"] = &user.SessionState{OrgID: "org", KeyID: "another", MetaData: meta{"ratelimit": "1/h burst 3"}}
	h.expect(h.codes(2, func() outcome { return h.send(api, get("c")) }), "map[200:2]")
	// Its first request was charged to the old key in pre, and given back.
	h.keys["c"] = first
	h.expect(h.codes(2, func() outcome { return h.send(api, get("c")) }), "map[200:1 429:1]")
}

func TestForeignCredentialsLeaveNothingBehind(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("k", meta{"ratelimit": "1/h burst 2"})
	h.send(api, get("k"))
	for i := range 10_000 {
		if got := h.send(api, get(fmt.Sprint("invented-", i))); got.code != 403 {
			t.Fatalf("%+v", got)
		}
	}
	if n := h.e.limits.own.Len(); n != 1 {
		t.Errorf("%d buckets", n)
	}
	h.expect(h.codes(3, func() outcome { return h.send(api, get("k")) }), "map[200:1 429:2]")
}

func TestManyCredentialsAreBounded(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	s := h.key("subject", meta{"ratelimit": "1000000/s"})
	for i := range 20_000 {
		name := fmt.Sprint("jwt-", i)
		h.keys[name] = s
		h.send(api, get(name))
		delete(h.keys, name)
	}
	n := 0
	for i := range h.e.known.shards {
		n += len(h.e.known.shards[i].grants)
	}
	if n == 0 || n > 1000 {
		t.Errorf("%d credentials are known, 1000 are allowed", n)
	}
}

func TestSignedRequestsAreNeverLearned(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	api.UseStandardAuth, api.EnableSignatureChecking = false, true
	s := h.key("hmac", meta{"ratelimit": "1/h burst 3"})
	n := 0
	h.expect(h.codes(6, func() outcome {
		n++
		signature := fmt.Sprint("Signature ", n)
		h.keys[signature] = s
		got := h.send(api, get(signature))
		if !got.authenticated {
			t.Error("refused before authentication")
		}
		return got
	}), "map[200:3 429:3]")
	for i := range h.e.known.shards {
		if len(h.e.known.shards[i].grants) > 0 {
			t.Fatal("a signature was learned")
		}
	}
}
