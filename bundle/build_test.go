package main

import (
	"bytes"
	"crypto"
	"crypto/md5"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestBuildMakesWhatTheGatewayChecks(t *testing.T) {
	workdir(t)
	call("build", "-key", "private.pem", "-o", "out.zip", soARM, soAMD).mustBeOK(t)

	items := unzip(t, "out.zip")
	var names []string
	for _, it := range items {
		names = append(names, it.name)
	}
	if got, want := fmt.Sprint(names), fmt.Sprint([]string{soARM, soAMD, "manifest.json"}); got != want {
		t.Fatalf("entries %s, want %s", got, want)
	}
	var m struct {
		FileList            []string `json:"file_list"`
		Checksum, Signature string
		CustomMiddleware    json.RawMessage `json:"custom_middleware"`
	}
	if err := json.Unmarshal(items[2].data, &m); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(m.FileList), fmt.Sprint(names[:2]); got != want {
		t.Errorf("file_list %s, want %s", got, want)
	}
	content := append(read(t, soARM), read(t, soAMD)...)
	if want := fmt.Sprintf("%x", md5.Sum(content)); m.Checksum != want {
		t.Errorf("checksum %s, want %s", m.Checksum, want)
	}
	signature, err := base64.StdEncoding.DecodeString(m.Signature)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	if err := rsa.VerifyPKCS1v15(&privateKey(t).PublicKey, crypto.SHA256, sum[:], signature); err != nil {
		t.Errorf("signature: %v", err)
	}
	const hooks = `{"pre":[{"name":"RateLimitPre","path":"tokenbucket.so"}],` +
		`"post_key_auth":[{"name":"RateLimitPostKeyAuth","path":"tokenbucket.so"}],"driver":"goplugin"}`
	if string(m.CustomMiddleware) != hooks {
		t.Errorf("custom_middleware %s", m.CustomMiddleware)
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	workdir(t)
	call("build", "-key", "private.pem", "-o", "a.zip", soAMD, soARM).mustBeOK(t)
	call("build", "-key", "private.pem", "-o", "b.zip", "./"+soAMD, "./"+soARM).mustBeOK(t)
	if !bytes.Equal(read(t, "a.zip"), read(t, "b.zip")) {
		t.Error("the same input gave two different bundles")
	}
	for _, it := range unzip(t, "a.zip") {
		if !it.modified.Equal(zipTime) {
			t.Errorf("%s carries the time of the build: %v", it.name, it.modified)
		}
	}
}

func TestBuildDropsAnOldSignature(t *testing.T) {
	workdir(t)
	manifest := strings.Replace(string(read(t, "manifest.json")), `"signature": ""`, `"signature": "c3RhbGU="`, 1)
	write(t, "manifest.json", []byte(manifest))
	call("build", "-o", "out.zip", soAMD).mustBeOK(t)
	if r := call("verify", "out.zip").mustBeOK(t); !strings.Contains(r.stdout, "signature none") {
		t.Errorf("a stale signature was kept: %s", r.stdout)
	}
}

func TestBuildKeepsEverySettingOfTheManifest(t *testing.T) {
	workdir(t)
	write(t, "manifest.json", []byte(`{"custom_middleware": {"driver": "goplugin",
		"pre": [{"name": "A", "path": "tokenbucket.so", "raw_body_only": true}, {"name": "", "path": "", "disabled": true}],
		"auth_check": {"name": "B", "path": "tokenbucket.so"},
		"post": [{"name": "C", "path": "tokenbucket.so", "require_session": true}],
		"id_extractor": {"extract_from": "header"}}}`))
	r := call("build", "-o", "out.zip", soAMD).mustBeOK(t)
	data := string(unzip(t, "out.zip")[1].data)
	for _, want := range []string{`"raw_body_only":true`, `"disabled":true`, `"auth_check":{"name":"B"`, `"require_session":true`, `"extract_from":"header"`} {
		if !strings.Contains(data, want) {
			t.Errorf("lost %s: %s", want, data)
		}
	}
	for _, want := range []string{"pre         A in", "auth_check  B in", "post        C in"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("does not print %q: %s", want, r.stdout)
		}
	}
}

func TestBuildName(t *testing.T) {
	workdir(t)
	for _, step := range []struct{ flags, file, name string }{
		{"-o a.zip", "a.zip", "a.zip"},
		{"-name release-2.zip", "release-2.zip", "release-2.zip"},
		{"-name release-3.zip -o b.zip", "b.zip", "release-3.zip"},
	} {
		r := call(append(append([]string{"build"}, strings.Fields(step.flags)...), soAMD)...).mustBeOK(t)
		if want := fmt.Sprintf(`"custom_middleware_bundle": %q`, step.name); !strings.Contains(r.stdout, want) {
			t.Errorf("%s: does not print %s: %s", step.flags, want, r.stdout)
		}
		call("verify", step.file).mustBeOK(t)
	}
}

func TestBuildRefuses(t *testing.T) {
	const head, tail = `{"custom_middleware": {"driver": "goplugin", "pre": [{"name": "RateLimitPre", `, `}]}}`
	steps := []struct {
		name     string
		manifest string // "" leaves the plugin's own
		args     string
		want     []string
	}{
		{"missing manifest", "", "-manifest none.json " + soAMD, []string{"none.json", "-manifest"}},
		{"not JSON", "driver: goplugin", soAMD, []string{"manifest.json", "not valid"}},
		{"two values", head + `"path": "tokenbucket.so"` + tail + "{}", soAMD, []string{"more than one"}},
		{"oversize", strings.Repeat(" ", maxManifest+1), soAMD, []string{"larger than"}},
		{"misspelt hook", `{"custom_middleware": {"driver": "goplugin", "post_keyauth": []}}`, soAMD, []string{"post_keyauth"}},
		{"wrong type", `{"custom_middleware": []}`, soAMD, []string{"custom_middleware"}},
		{"wrong driver", strings.Replace(head, "goplugin", "otto", 1) + `"path": "x.so"` + tail, soAMD, []string{`"otto"`, "goplugin"}},
		{"null", "null", soAMD, []string{"driver"}},
		{"no hooks", `{"custom_middleware": {"driver": "goplugin"}}`, soAMD, []string{"no hooks"}},
		{"only disabled hooks", head + `"path": "tokenbucket.so", "disabled": true` + tail, soAMD, []string{"no hooks"}},
		{"hook in a folder", head + `"path": "lib/tokenbucket.so"` + tail, soAMD, []string{"pre hook", "lib/tokenbucket.so", "folder"}},
		{"hook outside", head + `"path": "../tokenbucket.so"` + tail, soAMD, []string{"leaves"}},
		{"hook without path", head + `"path": ""` + tail, soAMD, []string{"path", "empty"}},
		{"hook of no file", head + `"path": "other.so"` + tail, soAMD, []string{`"other.so"`, "other_v5.14.0_linux_amd64.so"}},
		{"unexported hook", strings.Replace(head, "RateLimitPre", "rateLimitPre", 1) + `"path": "tokenbucket.so"` + tail, soAMD, []string{`"rateLimitPre"`, "export"}},
		{"file of no hook", "", "tokenbucket.so stray.so", []string{`"stray.so"`, "no gateway"}},
		{"release candidate", "", "tokenbucket.so tokenbucket_v5.15.0-rc7_linux_amd64.so", []string{"rc7", "-rc1"}},
		{"duplicate base names", "", soAMD + " sub/" + soAMD, []string{soAMD, "twice"}},
		{"names equal but for case", "", "tokenbucket.so TokenBucket.so", []string{"TokenBucket.so", "twice"}},
		{"a file named as the manifest", "", soAMD + " sub/manifest.json", []string{"manifest.json", "twice"}},
		{"missing file", "", "tokenbucket_v9.9.9_linux_amd64.so", []string{"missing", "v9.9.9"}},
		{"empty file", "", "sub/tokenbucket.so", []string{"sub/tokenbucket.so", "empty"}},
		{"a folder", "", "dir/tokenbucket.so", []string{"dir/tokenbucket.so", "not a file"}},
		{"too large", "", "huge/tokenbucket.so", []string{"more than"}},
		{"missing key", "", "-key none.pem " + soAMD, []string{"none.pem"}},
		{"public key", "", "-key public.pem " + soAMD, []string{"public.pem", "private key"}},
		{"output is an input", "", "-o " + soAMD + " " + soAMD, []string{soAMD, "own input"}},
		{"output is the key", "", "-o private.pem -key private.pem " + soAMD, []string{"private.pem", "own input"}},
		{"output is a folder", "", "-o sub " + soAMD, []string{"sub", "not a file"}},
		{"output in no folder", "", "-o none/out.zip " + soAMD, []string{"none", "writable"}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			workdir(t)
			write(t, "tokenbucket.so", []byte("x"))
			for _, dir := range []string{"sub", "dir/tokenbucket.so", "huge"} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			write(t, "sub/tokenbucket.so", nil)
			write(t, "huge/tokenbucket.so", []byte("x"))
			if err := os.Truncate("huge/tokenbucket.so", maxUnpacked+1); err != nil { // sparse
				t.Fatal(err)
			}
			if step.manifest != "" {
				write(t, "manifest.json", []byte(step.manifest))
			}
			write(t, "out.zip", []byte("the last good one"))
			call(append([]string{"build", "-o", "out.zip"}, strings.Fields(step.args)...)...).mustFail(t, 1, step.want...)
			mustBeUntouched(t)
		})
	}
}

// mustBeUntouched checks that a refused build left the old bundle and its
// inputs as they were, and no temporary file.
func mustBeUntouched(t *testing.T) {
	t.Helper()
	if got := string(read(t, "out.zip")); got != "the last good one" {
		t.Errorf("the old bundle is now %q", got)
	}
	if got := string(read(t, soAMD)); got != "the plugin for amd64" {
		t.Errorf("the plugin is now %q", got)
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".bundle-") {
			t.Errorf("left behind: %s", f.Name())
		}
	}
}

func TestBuildReplacesAnOldBundle(t *testing.T) {
	workdir(t)
	write(t, "out.zip", []byte("old"))
	call("build", "-o", "out.zip", soAMD).mustBeOK(t)
	call("verify", "out.zip").mustBeOK(t)
	fi, err := os.Stat("out.zip")
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o644 {
		t.Errorf("mode %v: a web server could not read it", fi.Mode())
	}
}

func TestFileNamesThatGatewaysLookFor(t *testing.T) {
	for _, step := range []struct {
		file, path string
		want       bool
	}{
		{"tokenbucket.so", "tokenbucket.so", true},
		{"tokenbucket_v5.14.0_linux_amd64.so", "tokenbucket.so", true},
		{"tokenbucket_5.14.0_linux_s390x.so", "tokenbucket.so", true},
		{"tokenbucket_v5.14.0-rc1_linux_amd64.so", "tokenbucket.so", false},
		{"tokenbucket_v5.14.0_linux.so", "tokenbucket.so", false},
		{"tokenbucket_linux_amd64.so", "tokenbucket.so", false},
		{"tokenbucket_v5.14.0_linux_amd64", "tokenbucket.so", false},
		{"tokenbucket2_v5.14.0_linux_amd64.so", "tokenbucket.so", false},
		{"other.so", "tokenbucket.so", false},
	} {
		if got := serves(step.file, step.path); got != step.want {
			t.Errorf("serves(%q, %q) = %v", step.file, step.path, got)
		}
	}
}
