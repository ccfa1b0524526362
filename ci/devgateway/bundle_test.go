package main

import (
	"archive/zip"
	"bytes"
	"crypto"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// newBundle makes a zip of the files and a manifest whose hooks are in p.so.
func newBundle(t *testing.T, files, list []string, key *rsa.PrivateKey, change func(object)) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, name := range list {
		all.WriteString("content of " + name)
	}
	sum := md5.Sum(all.Bytes())
	manifest := object{
		"file_list": list, "checksum": hex.EncodeToString(sum[:]),
		"custom_middleware": object{"driver": "goplugin", "pre": []object{{"name": "Pre", "path": "p.so"}}},
	}
	if key != nil {
		digest := sha256.Sum256(all.Bytes())
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
		if err != nil {
			t.Fatal(err)
		}
		manifest["signature"] = base64.StdEncoding.EncodeToString(signature)
	}
	if change != nil {
		change(manifest)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name, content string) {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(content))
	}
	for _, name := range files {
		add(name, "content of "+name)
	}
	add("manifest.json", toJSON(manifest))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bundleHost is a host whose API "a" has the bundle b.zip.
func bundleHost(t *testing.T, data *[]byte) (*host, *atomic.Int32) {
	downloads := new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		downloads.Add(1)
		if r.URL.Path != "/bundles/b.zip" || *data == nil {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(*data)
	}))
	t.Cleanup(server.Close)
	h := newHost(t, func(c *conf) { c.EnableBundleDownloader, c.BundleBaseURL = true, server.URL+"/bundles/" })
	h.hooks["Pre"] = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(299) }
	h.define("a", "http://127.0.0.1:1", object{"use_keyless": true, "custom_middleware_bundle": "b.zip"})
	return h, downloads
}

func TestBundleVerification(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	so := []string{"p.so"}
	set := func(field string, v any) func(object) { return func(m object) { m[field] = v } }
	for name, c := range map[string]struct {
		data   []byte
		signed bool // the host has a public key
		want   string
	}{
		"unsigned":               {newBundle(t, so, so, nil, nil), false, ""},
		"signed, no key set":     {newBundle(t, so, so, key, nil), false, ""},
		"signed":                 {newBundle(t, so, so, key, nil), true, ""},
		"two files":              {newBundle(t, []string{"p.so", "sub/q.so"}, []string{"sub/q.so", "p.so"}, key, nil), true, ""},
		"unsigned, key set":      {newBundle(t, so, so, nil, nil), true, "bundle isn't signed"},
		"other signer":           {newBundle(t, so, so, other, nil), true, "signature"},
		"signature no base64":    {newBundle(t, so, so, key, set("signature", "!")), true, "signature"},
		"wrong checksum":         {newBundle(t, so, so, key, set("checksum", "00")), false, "invalid checksum"},
		"file missing":           {newBundle(t, nil, so, nil, nil), false, "file_list"},
		"list leaves the folder": {newBundle(t, so, []string{"../p.so"}, nil, nil), false, "leaves the bundle's folder"},
		"zip leaves the folder":  {newBundle(t, []string{"p.so", "../evil.so"}, so, nil, nil), false, `leaves the bundle's folder`},
		"absolute path in zip":   {newBundle(t, []string{"p.so", "/evil.so"}, so, nil, nil), false, `leaves the bundle's folder`},
		"file twice":             {newBundle(t, []string{"p.so", "p.so"}, so, nil, nil), false, "file exists"},
		"no zip":                 {[]byte("hello"), false, "not a valid zip file"},
		"not found":              {nil, false, "404"},
		"odd manifest":           {newBundle(t, so, so, nil, set("file_list", "p.so")), false, "file_list: want"},
	} {
		t.Run(name, func(t *testing.T) {
			data := c.data
			h, _ := bundleHost(t, &data)
			if c.signed {
				h.gw.conf.publicKey = &key.PublicKey
			}
			out := logged(h.reload)
			got := h.do("GET", "/a/", "")
			if c.want == "" && got.code != 299 || c.want != "" && (got.code != 404 || !strings.Contains(out, c.want)) {
				t.Errorf("got %d, logged %s", got.code, out)
			}
			left, _ := filepath.Glob(h.path("mw/bundles/*"))
			if (c.want == "") != (len(left) == 1) {
				t.Errorf("left on disk: %v", left)
			}
			if _, err := os.Stat(h.path("mw/evil.so")); err == nil {
				t.Error("a file got out of the folder")
			}
		})
	}
}

func TestBundleOnDiskIsNotDownloadedAgain(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	so := []string{"p.so"}
	data := newBundle(t, so, so, key, nil)
	h, downloads := bundleHost(t, &data)
	h.gw.conf.publicKey = &key.PublicKey
	h.reload()
	data = nil
	h.reload()
	if got := h.do("GET", "/a/", ""); got.code != 299 || downloads.Load() != 1 {
		t.Fatalf("got %d after %d downloads", got.code, downloads.Load())
	}

	files, _ := filepath.Glob(h.path("mw/bundles/*/p.so"))
	if err := os.WriteFile(files[0], []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := logged(h.reload)
	if got := h.do("GET", "/a/", ""); got.code != 404 || !strings.Contains(out, "invalid checksum") {
		t.Errorf("a changed byte: got %d, logged %s", got.code, out)
	}
}

func TestBundleFromAFileAndWithoutDownloader(t *testing.T) {
	so := []string{"p.so"}
	data := newBundle(t, so, so, nil, nil)
	h, downloads := bundleHost(t, &data)
	h.file("store/b.zip", string(data))
	h.gw.conf.BundleBaseURL = "file://" + h.path("store")
	h.gw.conf.EnableBundleDownloader = false
	if out := logged(h.reload); !strings.Contains(out, "enable_bundle_downloader is false") {
		t.Errorf("logged %s", out)
	}
	h.gw.conf.EnableBundleDownloader = true
	h.reload()
	if got := h.do("GET", "/a/", ""); got.code != 299 || downloads.Load() != 0 {
		t.Errorf("got %d", got.code)
	}
	h.define("a", "http://127.0.0.1:1", object{"custom_middleware_bundle": "b.zip", "custom_middleware_bundle_disabled": true})
	h.reload()
	if got := h.do("GET", "/a/", ""); got.code != 401 {
		t.Errorf("disabled bundle: got %d", got.code)
	}
}

func TestPublicKeyFiles(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkix, _ := x509.MarshalPKIXPublicKey(&key.PublicKey)
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	h := newHost(t)
	for name, c := range map[string]struct {
		content string
		ok      bool
	}{
		"pkix":  {block("PUBLIC KEY", pkix), true},
		"pkcs1": {block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&key.PublicKey)), true},
		"text":  {"hello", false},
		"junk":  {block("PUBLIC KEY", []byte("junk")), false},
	} {
		h.file("key.pem", c.content)
		got, err := loadPublicKey(h.path("key.pem"))
		if (err == nil) != c.ok || c.ok && !got.Equal(&key.PublicKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := loadPublicKey(h.path("none")); err == nil {
		t.Error("want an error")
	}
}
