package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// signedBundle leaves a good bundle.zip in the working directory.
func signedBundle(t *testing.T) []item {
	t.Helper()
	workdir(t)
	call("build", "-key", "private.pem", "-o", "bundle.zip", soAMD, soARM).mustBeOK(t)
	return unzip(t, "bundle.zip")
}

func TestVerifyPrintsWhatIsInside(t *testing.T) {
	signedBundle(t)
	call("build", "-o", "unsigned.zip", soAMD).mustBeOK(t)
	for _, step := range []struct {
		args string
		want []string
	}{
		{"-key public.pem bundle.zip", []string{"signature ok (RSA, 2048 bits"}},
		{"bundle.zip", []string{"signature not checked: no -key"}},
		{"unsigned.zip", []string{"signature none"}},
	} {
		r := call(append([]string{"verify"}, strings.Fields(step.args)...)...).mustBeOK(t)
		for _, want := range append(step.want, soAMD, "20 bytes", "RateLimitPre in tokenbucket.so", "RateLimitPostKeyAuth in tokenbucket.so", "checksum") {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%s: does not print %q: %s", step.args, want, r.stdout)
			}
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	replace := func(items []item, name string, by item) []item {
		i := slices.IndexFunc(items, func(it item) bool { return it.name == name })
		return slices.Replace(items, i, i+1, by)
	}
	extra := func(name string) func(*testing.T, []item) []item {
		return func(_ *testing.T, items []item) []item {
			return append(items, item{name: name, data: []byte("x")})
		}
	}
	manifest := func(edit func(m map[string]any)) func(*testing.T, []item) []item {
		return func(t *testing.T, items []item) []item {
			editManifest(t, items, edit)
			return items
		}
	}
	list := func(names ...any) func(*testing.T, []item) []item {
		return manifest(func(m map[string]any) { m["file_list"] = names })
	}
	steps := []struct {
		name string
		edit func(t *testing.T, items []item) []item
		want []string
	}{
		{"missing file", func(_ *testing.T, items []item) []item { return items[1:] }, []string{"missing", soAMD}},
		{"missing manifest", func(_ *testing.T, items []item) []item { return items[:2] }, []string{"manifest.json"}},
		{"empty zip", func(*testing.T, []item) []item { return nil }, []string{"manifest.json"}},
		{"extra file", extra("stray.txt"), []string{"extra", "stray.txt"}},
		{"unlisted file", list(soAMD), []string{"extra", soARM}},
		{"parent", extra("../../etc/cron.d/x"), []string{"../../etc/cron.d/x", "leaves"}},
		{"hidden parent", extra("a/../../x"), []string{"a/../../x", "leaves"}},
		{"absolute", extra("/etc/passwd"), []string{"/etc/passwd", "leave"}},
		{"backslash", extra(`..\x.so`), []string{`..\\x.so`, "leave"}},
		{"drive", extra("C:x.so"), []string{"C:x.so", "leave"}},
		{"subfolder", extra("lib/x.so"), []string{"lib/x.so", "folder"}},
		{"folder entry", func(_ *testing.T, items []item) []item {
			return append(items, item{name: "lib/"})
		}, []string{"lib/", "folder"}},
		{"unprintable name", extra("x\x1b[2J.so"), []string{`\x1b`, "printed"}},
		{"empty name", extra(""), []string{"empty file name"}},
		{"listed parent", list(soAMD, soARM, "../x.so"), []string{"file_list", "../x.so"}},
		{"listed twice", list(soAMD, soARM, soAMD), []string{"file_list", soAMD, "twice"}},
		{"listed manifest", list(soAMD, soARM, "manifest.json"), []string{"file_list", "manifest.json"}},
		{"symlink", func(_ *testing.T, items []item) []item {
			return replace(items, soAMD, item{name: soAMD, data: []byte("/etc/passwd"), mode: os.ModeSymlink | 0o777})
		}, []string{soAMD, "link"}},
		{"duplicate entry", extra(soAMD), []string{soAMD, "twice"}},
		{"duplicate but for case", extra("MANIFEST.json"), []string{"MANIFEST.json", "twice"}},
		{"duplicate manifest", extra("manifest.json"), []string{"manifest.json", "twice"}},
		{"oversize manifest", func(_ *testing.T, items []item) []item {
			return replace(items, "manifest.json", item{name: "manifest.json", data: bytes.Repeat([]byte(" "), maxManifest+1)})
		}, []string{"manifest", "larger"}},
		{"broken manifest", func(_ *testing.T, items []item) []item {
			return replace(items, "manifest.json", item{name: "manifest.json", data: []byte("{")})
		}, []string{"manifest", "not valid"}},
		{"emptied file", func(_ *testing.T, items []item) []item {
			return replace(items, soAMD, item{name: soAMD})
		}, []string{soAMD, "empty"}},
		{"longer file", func(_ *testing.T, items []item) []item {
			return replace(items, soARM, item{name: soARM, data: []byte("the plugin for arm64 and more")})
		}, []string{"checksum"}},
		{"swapped files", list(soARM, soAMD), []string{"checksum"}},
		{"wrong driver", manifest(func(m map[string]any) {
			m["custom_middleware"].(map[string]any)["driver"] = "python"
		}), []string{"python"}},
		{"misspelt hook", manifest(func(m map[string]any) {
			m["custom_middleware"].(map[string]any)["post_keyauth"] = []any{}
		}), []string{"post_keyauth"}},
		{"no hooks", manifest(func(m map[string]any) {
			m["custom_middleware"] = map[string]any{"driver": "goplugin"}
		}), []string{"no hooks"}},
		{"unsigned", manifest(func(m map[string]any) { m["signature"] = "" }), []string{"not signed"}},
		{"garbage signature", manifest(func(m map[string]any) { m["signature"] = "***" }), []string{"signature", "base64"}},
		{"other signature", manifest(func(m map[string]any) {
			m["signature"] = base64.StdEncoding.EncodeToString(make([]byte, 256))
		}), []string{"wrong signature"}},
		{"forged checksum", func(t *testing.T, items []item) []item {
			items[0].data = []byte("evil")
			editManifest(t, items, func(m map[string]any) {
				m["checksum"] = fmt.Sprintf("%x", md5.Sum(append([]byte("evil"), items[1].data...)))
			})
			return items
		}, []string{"wrong signature"}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			writeZip(t, "bad.zip", step.edit(t, signedBundle(t)))
			call("verify", "-key", "public.pem", "bad.zip").mustFail(t, 1, append(step.want, "bad.zip")...)
		})
	}
}

func TestVerifyRefusesTheWrongKey(t *testing.T) {
	signedBundle(t)
	call("verify", "-key", "other-public.pem", "bundle.zip").mustFail(t, 1, "wrong signature", "bundle.zip")
	call("verify", "-key", "private.pem", "bundle.zip").mustFail(t, 1, "private.pem", "public key")
}

// The gateway accepts only PKCS #1 v1.5 over SHA-256.
func TestVerifyRefusesOtherSignatureSchemes(t *testing.T) {
	items := signedBundle(t)
	sum := sha256.Sum256(append(slices.Clone(items[0].data), items[1].data...))
	signature, err := rsa.SignPSS(rand.Reader, privateKey(t), crypto.SHA256, sum[:], nil)
	if err != nil {
		t.Fatal(err)
	}
	editManifest(t, items, func(m map[string]any) { m["signature"] = base64.StdEncoding.EncodeToString(signature) })
	writeZip(t, "bad.zip", items)
	call("verify", "-key", "public.pem", "bad.zip").mustFail(t, 1, "wrong signature")
}

func TestVerifyRefusesWhatIsNoBundle(t *testing.T) {
	signedBundle(t)
	good := read(t, "bundle.zip")
	write(t, "garbage.zip", []byte("this is not a zip"))
	write(t, "empty.zip", nil)
	write(t, "half.zip", good[:len(good)/2])
	for _, name := range []string{"garbage.zip", "empty.zip", "half.zip"} {
		call("verify", name).mustFail(t, 1, name, "whole zip")
	}
	call("verify", "none.zip").mustFail(t, 1, "none.zip", "cannot open")
	call("verify", os.DevNull).mustFail(t, 1, os.DevNull, "neither")
}

func TestVerifyRefusesAnEntryThatUnpacksToTooMuch(t *testing.T) {
	workdir(t)
	var buf bytes.Buffer
	zw := zip.NewWriter(&buf)
	for _, name := range []string{soAMD, soARM} {
		if _, err := zw.CreateRaw(&zip.FileHeader{Name: name, UncompressedSize64: maxUnpacked/2 + 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, "bomb.zip", buf.Bytes())
	call("verify", "bomb.zip").mustFail(t, 1, "bomb.zip", "unpacks to more")
}

// A header that promises less than there is must not hide the rest.
func TestVerifyRefusesAnEntryThatIsLongerThanItsHeader(t *testing.T) {
	items := signedBundle(t)
	var buf bytes.Buffer
	zw := zip.NewWriter(&buf)
	for _, it := range items {
		var packed bytes.Buffer
		fw, err := flate.NewWriter(&packed, flate.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		size := uint64(len(it.data))
		if it.name == soAMD {
			size -= 5
		}
		fw.Write(it.data)
		fw.Close()
		w, err := zw.CreateRaw(&zip.FileHeader{Name: it.name, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(it.data),
			CompressedSize64: uint64(packed.Len()), UncompressedSize64: size})
		if err != nil {
			t.Fatal(err)
		}
		w.Write(packed.Bytes())
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, "bad.zip", buf.Bytes())
	call("verify", "bad.zip").mustFail(t, 1, "bad.zip", soAMD)
}

func TestVerifyRefusesEveryFlippedByteOfEveryFile(t *testing.T) {
	items := signedBundle(t)
	for i, it := range items[:2] {
		for at := range it.data {
			flipped := slices.Clone(items)
			flipped[i].data = slices.Clone(it.data)
			flipped[i].data[at] ^= 0x20
			writeZip(t, "bad.zip", flipped)
			call("verify", "bad.zip").mustFail(t, 1, "bad.zip", "checksum")
		}
	}
}

// The gateway's format vouches for the files and not for the manifest, so all
// that can change unseen is how a name is written: here, the case of a letter.
func TestVerifyRefusesFlippedBytesOfTheManifest(t *testing.T) {
	unpack(t, signedBundle(t), "unpacked")
	want := verdict(t, "unpacked")
	path := filepath.Join("unpacked", "manifest.json")
	good := read(t, path)
	for at := range good {
		bad := slices.Clone(good)
		bad[at] ^= 0x20
		write(t, path, bad)
		if got := verdict(t, "unpacked"); got != "" && !strings.EqualFold(got, want) {
			t.Errorf("byte %d: accepted something else: %s", at, got)
		}
	}
}

// A flip in the zip's own structure may be harmless (a time stamp), but it must
// never change what is accepted.
func TestVerifyIsNotFooledByAnyFlippedByteOfTheZip(t *testing.T) {
	signedBundle(t)
	want := verdict(t, "bundle.zip")
	good := read(t, "bundle.zip")
	refused := 0
	for at := range good {
		bad := slices.Clone(good)
		bad[at] ^= 0xff
		write(t, "bad.zip", bad)
		switch got := verdict(t, "bad.zip"); got {
		case "":
			refused++
		case want:
		default:
			t.Errorf("byte %d: accepted something else: %s", at, got)
		}
	}
	if refused < len(good)/2 {
		t.Errorf("only %d of %d flips were refused", refused, len(good))
	}
}

// verdict is what verify says of an accepted bundle, and "" for a refused one.
func verdict(t *testing.T, path string) string {
	t.Helper()
	r := call("verify", "-key", "public.pem", path)
	if r.code != 0 {
		r.mustFail(t, 1, path)
		return ""
	}
	return strings.TrimPrefix(r.stdout, path)
}

func unpack(t *testing.T, items []item, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		write(t, filepath.Join(dir, it.name), it.data)
	}
}

func TestVerifyTakesAnUnpackedFolder(t *testing.T) {
	items := signedBundle(t)
	unpack(t, items, "unpacked")
	call("verify", "-key", "public.pem", "unpacked").mustBeOK(t)

	victim := filepath.Join("unpacked", soAMD)
	write(t, victim, []byte("the plugin for AMD64"))
	call("verify", "unpacked").mustFail(t, 1, "checksum")
	unpack(t, items, "unpacked")
	write(t, "unpacked/stray", []byte("x"))
	call("verify", "unpacked").mustFail(t, 1, "extra", "stray")
	os.Remove("unpacked/stray")
	os.Remove(victim)
	call("verify", "unpacked").mustFail(t, 1, "missing", soAMD)
	if err := os.Symlink(filepath.Join("..", soAMD), victim); err != nil {
		t.Fatal(err)
	}
	call("verify", "unpacked").mustFail(t, 1, soAMD, "link")
}

// The gateway's own bundler writes every field.
func TestVerifyTakesBundlesOfTheGatewaysOwnBundler(t *testing.T) {
	workdir(t)
	data := read(t, soAMD)
	const hook = `[{"disabled":false,"name":"%s","path":"tokenbucket.so","require_session":false,"raw_body_only":false}]`
	manifest := fmt.Sprintf(`{"file_list":[%q],"custom_middleware":{"pre":`+hook+`,"post":null,"post_key_auth":null,
		"auth_check":{"disabled":false,"name":"","path":"","require_session":false,"raw_body_only":false},
		"response":`+hook+`,"driver":"goplugin","id_extractor":{"disabled":false,"extract_from":"","extract_with":"","extractor_config":null}},"checksum":"%x","signature":""}`, soAMD, "RateLimitPre", "RateLimitResponse", md5.Sum(data))
	writeZip(t, "tyk.zip", []item{{name: soAMD, data: data}, {name: "manifest.json", data: []byte(manifest)}})
	call("verify", "tyk.zip").mustBeOK(t)
}
