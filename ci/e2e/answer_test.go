package e2e

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

var (
	h11    = shared.api(rig.API{ID: "h11"})
	h11oas = shared.api(rig.API{ID: "h11-oas", OAS: true})
	h11ip  = shared.api(rig.API{ID: "h11-keyless", Keyless: true, RateLimit: rig.Object{"anonymous": "1/2s burst 1"}})
)

// A key that the plugin knows is refused before authentication; one that it
// does not know yet, after. The answer is the same.
func TestH11RefusalIsOneCompleteAnswer(t *testing.T) {
	t.Parallel()
	for name, api := range map[string]string{"classic": h11, "OAS": h11oas, "keyless": h11ip} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := of(t, api)
			grouped := rig.Object{"ratelimit": "1/2s burst 1", "ratelimit_group": api}
			known := c.key(grouped)
			c.wantAdmitted(1, known)
			last := c.wantRefusal(rig.Request{Key: known})
			c.wantRefusal(rig.Request{Key: c.key(grouped)})
			c.wantRefusal(rig.Request{Key: known, Method: "POST", Body: "{}", Header: rig.Header{"Content-Type": "application/json"}})
			for _, kind := range []string{"application/xml", "text/xml; charset=utf-8", "application/soap+xml"} {
				c.wantRefusal(rig.Request{Key: known, Method: "POST", Body: "<a/>", Header: rig.Header{"Content-Type": kind}})
			}
			after, _ := strconv.Atoi(last.Header.Get("Retry-After"))
			time.Sleep(time.Until(last.Received.Add(time.Duration(after) * time.Second)))
			c.wantAdmitted(1, known)
		})
	}
}

// wantRefusal sends a request and wants the one answer that a refusal has.
func (c *client) wantRefusal(q rig.Request) rig.Reply {
	c.t.Helper()
	r := c.send(q)
	if !r.Refused() {
		c.t.Fatalf("%s: %v, want 429", c.api, r)
	}
	for name, values := range r.Header {
		if len(values) != 1 {
			c.t.Errorf("%s: %d values of %s", c.api, len(values), name)
		}
	}
	if strings.Contains(q.Header["Content-Type"], "xml") {
		c.wantXML(r)
	} else {
		c.wantJSON(r)
	}
	c.wantFields(r)
	return r
}

func (c *client) wantJSON(r rig.Reply) {
	c.t.Helper()
	var body map[string]string
	d := json.NewDecoder(strings.NewReader(r.Body))
	if err := d.Decode(&body); err != nil || len(body) != 1 || body["error"] != "Rate limit exceeded" {
		c.t.Errorf("%s: body %q (%v)", c.api, r.Body, err)
	}
	if _, err := d.Token(); err != io.EOF {
		c.t.Errorf("%s: more than one body: %q", c.api, r.Body)
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		c.t.Errorf("%s: Content-Type %q", c.api, got)
	}
}

func (c *client) wantXML(r rig.Reply) {
	c.t.Helper()
	var body struct {
		XMLName xml.Name
		Text    string `xml:",chardata"`
	}
	d := xml.NewDecoder(strings.NewReader(r.Body))
	if err := d.Decode(&body); err != nil || body.XMLName.Local != "error" || body.Text != "Rate limit exceeded" {
		c.t.Errorf("%s: body %q (%v)", c.api, r.Body, err)
	}
	var more any
	if err := d.Decode(&more); err != io.EOF {
		c.t.Errorf("%s: more than one body: %q", c.api, r.Body)
	}
	if got := r.Header.Get("Content-Type"); !strings.Contains(got, "xml") {
		c.t.Errorf("%s: Content-Type %q", c.api, got)
	}
}

// wantFields checks the numbers of a 429 at "1/2s burst 1".
func (c *client) wantFields(r rig.Reply) {
	c.t.Helper()
	after, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || after < 1 || after > 2 {
		c.t.Errorf("%s: Retry-After %q", c.api, r.Header.Get("Retry-After"))
	}
	reset, _ := strconv.ParseInt(r.Header.Get("X-RateLimit-Reset"), 10, 64)
	if in := time.Until(time.Unix(reset, 0)); in < -2*time.Second || in > 4*time.Second {
		c.t.Errorf("%s: X-RateLimit-Reset is in %v", c.api, in)
	}
	for name, want := range map[string]string{
		"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "RateLimit-Policy": `"default";q=1;w=2`,
	} {
		if got := r.Header.Get(name); got != want {
			c.t.Errorf("%s: %s: %q, want %q", c.api, name, got, want)
		}
	}
	if got := remaining(c.t, r); got != 0 {
		c.t.Errorf("%s: %d tokens left", c.api, got)
	}
}

// What is admitted has RateLimit, and never fields that the gateway has too.
func TestAdmittedAnswerHasTheRateLimitFields(t *testing.T) {
	t.Parallel()
	c := of(t, admitted)
	key := c.key(limits("5/s burst 5"))
	for range 2 { // learned, then known
		r := c.get(key)
		if got := r.Header.Get("RateLimit-Policy"); got != `"default";q=5;w=1` {
			t.Errorf("RateLimit-Policy %q", got)
		}
		if got := remaining(t, r); got < 3 || got > 4 {
			t.Errorf("%d tokens left", got)
		}
		for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
			if got := len(r.Header.Values(name)); got != 1 {
				t.Errorf("%d values of %s", got, name)
			}
		}
		if got := r.Header.Get("Retry-After"); got != "" {
			t.Errorf("Retry-After %q", got)
		}
	}
}

var admitted = shared.api(rig.API{ID: "admitted"})

var (
	h12     = shared.api(rig.API{ID: "h12", Ignored: []string{"/open"}, RateLimit: rig.Object{"default": "1/100s burst 3"}})
	h12anon = shared.api(rig.API{ID: "h12-anonymous", Ignored: []string{"/open"}, RateLimit: rig.Object{"anonymous": "1/100s burst 2"}})
)

func TestH12IgnoredPathHasNoSession(t *testing.T) {
	t.Parallel()
	for _, api := range []struct {
		id   string
		want int // of ten without a key
	}{{h12, 10}, {h12anon, 2}} {
		c := of(t, api.id)
		admitted := 0
		for range 10 {
			r := c.send(rig.Request{Path: "open"})
			if r.OK() {
				admitted++
			} else if !r.Refused() {
				t.Fatalf("%s: %v", api.id, r)
			}
		}
		if admitted != api.want {
			t.Errorf("%s: %d of 10 admitted, want %d", api.id, admitted, api.want)
		}
		// Other paths need a key, and its bucket is another.
		if r := c.send(rig.Request{}); r.Status != http.StatusUnauthorized {
			t.Errorf("%s: without a key: %v, want 401", api.id, r)
		}
		c.wantAdmitted(3, c.key(limits("1/100s burst 3")))
	}
}
