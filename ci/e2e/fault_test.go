package e2e

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

func TestH22FaultOfAHookIsContained(t *testing.T) {
	t.Parallel()
	g := own(t, rig.Options{Faulty: true, APIs: []rig.API{
		{ID: "open", Plugin: rig.AllHooks},
		{ID: "closed", Plugin: rig.AllHooks, RateLimit: rig.Object{"on_fault": "closed"}},
		{ID: "oas", OAS: true, Plugin: rig.AllHooks, RateLimit: rig.Object{"on_fault": "closed"}},
	}})
	clients := make(map[string]*client)
	for _, api := range []string{"open", "closed", "oas"} {
		clients[api] = clientOf(t, g, api)
	}
	for _, step := range []struct {
		api, hook string
		want      int
	}{
		{"open", "pre", 200}, {"open", "post", 200}, {"open", "response", 200},
		{"closed", "pre", 503}, {"closed", "post", 503}, {"closed", "response", 200}, // too late to refuse
		{"oas", "pre", 503}, {"oas", "post", 503}, {"oas", "response", 200},
	} {
		c := clients[step.api]
		key := c.key(limits("1/100s burst 5"))
		for range 3 {
			r := c.send(rig.Request{Key: key, Header: rig.Header{"X-Ratelimit-Fault": step.hook}})
			if r.Status != step.want || r.OK() != (step.want == 200) {
				t.Errorf("%s, fault in %s: %v, want %d", step.api, step.hook, r, step.want)
			}
		}
		if r := c.get(key); !r.OK() {
			t.Errorf("%s, after a fault in %s: %v, want it admitted", step.api, step.hook, r)
		}
	}
	if err := g.Alive(); err != nil {
		t.Error(err)
	}
	for _, hook := range []string{"RateLimitPre", "RateLimitPostKeyAuth", "RateLimitResponse"} {
		if lines := g.Log.Lines(hook+" failed", "injected fault"); len(lines) != 1 {
			t.Errorf("%d lines on %s, want one a minute: %q", len(lines), hook, lines)
		}
	}
}

func TestH24UnsignedOrChangedBundleIsRefused(t *testing.T) {
	t.Parallel()
	private, public := filepath.Join(t.TempDir(), "private.pem"), filepath.Join(t.TempDir(), "public.pem")
	if _, err := theRig.BundleTool("keygen", "-o", private, "-pub", public); err != nil {
		t.Fatal(err)
	}
	if err := theRig.MakeBundle("signed.zip", false, "-key", private); err != nil {
		t.Fatal(err)
	}
	if err := theRig.MakeBundle("unsigned.zip", false); err != nil {
		t.Fatal(err)
	}
	changeByte(t, "signed.zip", "changed.zip")
	bundles := []struct {
		id   string
		good bool
	}{{"signed", true}, {"unsigned", false}, {"changed", false}}

	var apis []rig.API
	for _, b := range bundles {
		apis = append(apis, rig.API{ID: b.id, Bundle: b.id + ".zip"})
	}
	g := own(t, rig.Options{APIs: apis, Conf: rig.Object{"public_key_path": public}})
	for _, b := range bundles {
		if _, err := theRig.BundleTool("verify", "-key", public, theRig.BundlePath(b.id+".zip")); (err == nil) != b.good {
			t.Errorf("bundle verify of the %s bundle: %v", b.id, err)
		}
		c := clientOf(t, g, b.id)
		key := c.key(limits("1/100s burst 2"))
		switch {
		case b.good:
			c.wantAdmitted(2, key)
			c.wantRefused(key)
		default:
			if r := c.get(key); r.OK() || r.Refused() {
				t.Errorf("the API with the %s bundle answered %v", b.id, r)
			}
			if len(g.Log.Lines("error", "bundle")) == 0 {
				t.Errorf("no error about the %s bundle in the log", b.id)
			}
		}
	}
}

// changeByte copies a bundle with one byte of its plugin changed.
func changeByte(t *testing.T, from, to string) {
	t.Helper()
	in, err := zip.OpenReader(theRig.BundlePath(from))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range in.File {
		content := unzip(t, f)
		if strings.HasSuffix(f.Name, ".so") {
			content[len(content)/2] ^= 1
		}
		part, err := w.Create(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(theRig.BundlePath(to), out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func unzip(t *testing.T, f *zip.File) []byte {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
