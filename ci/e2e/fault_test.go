package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"fmt"
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

// A gateway without the plugin would answer, and prove nothing.
func TestRigTellsThatThePluginIsNotLoaded(t *testing.T) {
	so := filepath.Join(t.TempDir(), "tokenbucket.so")
	if err := os.WriteFile(so, []byte("not a plugin"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PLUGIN_SO", so)
	r, err := rig.New(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, from := range []rig.From{rig.FromFile, rig.FromBundle} {
		_, err := r.Start(context.Background(), rig.Options{APIs: []rig.API{{ID: "no-plugin", Plugin: from}}})
		if err == nil || !strings.Contains(err.Error(), "does not load the plugin:\n") || !strings.Contains(err.Error(), "tokenbucket.so") {
			t.Errorf("started with an unusable plugin: %v", err)
		}
	}
}

func TestH24UnsignedOrChangedBundleIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keygen := func(name string) (private, public string) {
		private, public = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-public.pem")
		if _, err := theRig.BundleTool("keygen", "-o", private, "-pub", public); err != nil {
			t.Fatal(err)
		}
		return private, public
	}
	private, public := keygen("ours")
	foreign, _ := keygen("foreign")
	for name, flags := range map[string][]string{"signed.zip": {"-key", private}, "foreign.zip": {"-key", foreign}, "unsigned.zip": nil} {
		if err := theRig.MakeBundle(name, false, flags...); err != nil {
			t.Fatal(err)
		}
	}
	changeByte(t, "signed.zip", "damaged.zip", false)
	changeByte(t, "signed.zip", "changed.zip", true)
	bundles := []struct{ id, refused string }{
		{"signed", ""},
		{"unsigned", "isn't signed"},
		{"damaged", "invalid checksum"},
		{"changed", "verification error"},
		{"foreign", "verification error"},
	}

	var apis []rig.API
	for _, b := range bundles {
		apis = append(apis, rig.API{ID: b.id, Bundle: b.id + ".zip"})
	}
	g := own(t, rig.Options{APIs: apis, Conf: rig.Object{"public_key_path": public}})
	for _, b := range bundles {
		if _, err := theRig.BundleTool("verify", "-key", public, theRig.BundlePath(b.id+".zip")); (err != nil) != (b.refused != "") {
			t.Errorf("bundle verify of the %s bundle: %v", b.id, err)
		}
		c := clientOf(t, g, b.id)
		key := c.key(limits("1/100s burst 2"))
		if b.refused == "" {
			c.wantAdmitted(2, key)
			c.wantRefused(key)
			continue
		}
		if r := c.get(key); r.OK() || r.Refused() {
			t.Errorf("the API with the %s bundle answered %v", b.id, r)
		}
		about := b.id + ".zip: "
		if theRig.Real() {
			about = "api_id=" + b.id + " "
		}
		if len(g.Log.Lines("level=error", about, b.refused)) == 0 {
			t.Errorf("no %q about the %s bundle in the log: %q", b.refused, b.id, g.Log.Lines("level=error"))
		}
	}
}

// changeByte copies a bundle with one byte of its plugin changed, and with a
// checksum that fits or with the old one.
func changeByte(t *testing.T, from, to string, fits bool) {
	t.Helper()
	in, err := zip.OpenReader(theRig.BundlePath(from))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out bytes.Buffer
	var checksum string
	w := zip.NewWriter(&out)
	for _, f := range in.File { // the plugin, then the manifest
		content := unzip(t, f)
		switch {
		case strings.HasSuffix(f.Name, ".so"):
			content[len(content)/2] ^= 1
			checksum = fmt.Sprintf("%x", md5.Sum(content))
		case fits:
			content = withChecksum(t, content, checksum)
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

func withChecksum(t *testing.T, manifest []byte, checksum string) []byte {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(manifest, &m); err != nil || m["checksum"] == checksum {
		t.Fatalf("checksum %v, %v", m["checksum"], err)
	}
	m["checksum"] = checksum
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
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
