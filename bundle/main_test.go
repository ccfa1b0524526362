package main

import (
	"archive/zip"
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	soAMD = "tokenbucket_v5.14.0_linux_amd64.so"
	soARM = "tokenbucket_5.8.0_linux_arm64.so"
)

// result is what a user sees of one call of the command.
type result struct {
	code           int
	stdout, stderr string
}

func call(args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func (r result) mustBeOK(t *testing.T) result {
	t.Helper()
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("exit %d, stderr: %s", r.code, r.stderr)
	}
	return r
}

// mustFail checks the exit code, the prefix, and that the message names what
// it is about.
func (r result) mustFail(t *testing.T, code int, names ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit %d, want %d; stdout: %s stderr: %s", r.code, code, r.stdout, r.stderr)
	}
	if r.stdout != "" {
		t.Errorf("a failure printed to stdout: %s", r.stdout)
	}
	if !strings.HasPrefix(r.stderr, "bundle: ") {
		t.Errorf("stderr does not start with the command's name: %s", r.stderr)
	}
	for _, name := range names {
		if !strings.Contains(r.stderr, name) {
			t.Errorf("stderr does not say %q: %s", name, r.stderr)
		}
	}
}

// workdir is a folder with a manifest, two plugins and two key pairs, and the
// working directory of the test.
func workdir(t *testing.T) {
	t.Helper()
	manifest := read(t, filepath.Join("..", "manifest.json"))
	old, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chdir(old) })
	write(t, "manifest.json", manifest)
	write(t, soAMD, []byte("the plugin for amd64"))
	write(t, soARM, []byte("the plugin for arm64"))
	for name, data := range keyFiles() {
		write(t, name, data)
	}
}

// keyFiles makes the keys once, with the command itself.
var keyFiles = sync.OnceValue(func() map[string][]byte {
	dir, err := os.MkdirTemp("", "bundle-keys-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	files := map[string][]byte{}
	for _, who := range []string{"", "other-"} {
		private, public := who+"private.pem", who+"public.pem"
		if r := call("keygen", "-o", filepath.Join(dir, private), "-pub", filepath.Join(dir, public)); r.code != 0 {
			panic(r.stderr)
		}
		for _, name := range []string{private, public} {
			if files[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
				panic(err)
			}
		}
	}
	return files
})

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func privateKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	block, _ := pem.Decode(read(t, "private.pem"))
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// item is one entry of a zip that a test takes apart or makes.
type item struct {
	name     string
	data     []byte
	mode     os.FileMode
	modified time.Time // only read
}

func unzip(t *testing.T, path string) []item {
	t.Helper()
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var items []item
	for _, f := range r.File {
		rc, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(rc)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item{name: f.Name, data: data, modified: f.Modified})
	}
	return items
}

func writeZip(t *testing.T, path string, items []item) {
	t.Helper()
	var buf bytes.Buffer
	zw := zip.NewWriter(&buf)
	for _, it := range items {
		h := &zip.FileHeader{Name: it.name, Method: zip.Deflate}
		if it.mode != 0 {
			h.SetMode(it.mode)
		}
		w, err := zw.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(it.data); err != nil && len(it.data) > 0 {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, path, buf.Bytes())
}

// editManifest changes the manifest among the items, as generic JSON.
func editManifest(t *testing.T, items []item, edit func(m map[string]any)) {
	t.Helper()
	for i := range items {
		if items[i].name != "manifest.json" {
			continue
		}
		m := map[string]any{}
		if err := json.Unmarshal(items[i].data, &m); err != nil {
			t.Fatal(err)
		}
		edit(m)
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		items[i].data = data
	}
}

func TestHelpIsPrintedToStdout(t *testing.T) {
	for _, step := range []struct{ args, want string }{
		{"help", "bundle build"},
		{"-h", "bundle verify"},
		{"--help", "Exit codes"},
		{"build -h", "-manifest FILE"},
		{"verify --help", "public_key_path"},
		{"keygen -help", "openssl"},
		{"explain -h", "policy_source"},
		{"schema -h", "ratelimit.schema.json"},
	} {
		if r := call(strings.Fields(step.args)...).mustBeOK(t); !strings.Contains(r.stdout, step.want) {
			t.Errorf("%s: does not mention %q: %s", step.args, step.want, r.stdout)
		}
	}
}

func TestWrongCallsExitWith2(t *testing.T) {
	workdir(t)
	if r := call(); r.code != 2 || !strings.Contains(r.stderr, "usage:") {
		t.Errorf("no arguments: exit %d: %s", r.code, r.stderr)
	}
	for _, step := range []struct{ args, want string }{
		{"pack", `"pack"`},
		{"build", "no files given"},
		{"build -o out.zip", "no files given"},
		{"build " + soAMD, "-o out.zip"},
		{"build -x " + soAMD, "-x"},
		{"build " + soAMD + " -o out.zip", "flags first"},
		{"build -o out.zip -name a/b " + soAMD, "-name"},
		{"build -o out.zip -name .. " + soAMD, "-name"},
		{"verify", "one bundle"},
		{"verify a.zip b.zip", "one bundle"},
		{"verify -key", "-key"},
		{"keygen", "-o"},
		{"keygen -o private.pem", "-pub"},
		{"keygen -o same.pem -pub same.pem", "same file"},
		{"keygen -o a.pem -pub b.pem -bits 1024", "1024"},
		{"keygen -o a.pem -pub b.pem -bits 1000000", "8192"},
		{"keygen -o a.pem -pub b.pem -bits many", "many"},
		{"keygen -o a.pem -pub b.pem more", `"more"`},
	} {
		t.Run(step.args, func(t *testing.T) {
			call(strings.Fields(step.args)...).mustFail(t, 2, step.want)
		})
	}
}
