package main

import (
	"archive/zip"
	"bytes"
	"crypto"
	"crypto/md5"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
)

const downloadTimeout = 5 * time.Second

// loadBundle returns the bundle's folder and hooks. What is on disk is used as
// it is; a signed bundle is verified again.
func (g *gateway) loadBundle(name string) (folder string, hooks apidef.MiddlewareSection, err error) {
	if g.conf.BundleBaseURL == "" {
		return "", hooks, errors.New("bundle_base_url is not set")
	}
	sum := md5.Sum([]byte(name))
	folder = filepath.Join(g.conf.MiddlewarePath, "bundles", hex.EncodeToString(sum[:]))
	if _, err := os.Stat(folder); err == nil {
		hooks, err := g.readBundle(folder, false)
		return folder, hooks, err
	}
	hooks, err = g.fetchBundle(name, folder)
	return folder, hooks, err
}

// fetchBundle unpacks and verifies beside the final folder, which appears only
// once everything is right.
func (g *gateway) fetchBundle(name, folder string) (hooks apidef.MiddlewareSection, err error) {
	if !g.conf.EnableBundleDownloader {
		return hooks, errors.New("enable_bundle_downloader is false")
	}
	data, err := g.download(name)
	if err != nil {
		return hooks, err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return hooks, err
	}
	staging, err := os.MkdirTemp(filepath.Dir(folder), "new-")
	if err != nil {
		return hooks, err
	}
	defer os.RemoveAll(staging)
	if err := unpack(data, staging); err != nil {
		return hooks, fmt.Errorf("%s: %w", name, err)
	}
	if hooks, err = g.readBundle(staging, true); err != nil {
		return hooks, fmt.Errorf("%s: %w", name, err)
	}
	return hooks, os.Rename(staging, folder)
}

func (g *gateway) download(name string) ([]byte, error) {
	u, err := url.Parse(g.conf.BundleBaseURL)
	if err != nil {
		return nil, err
	}
	u.Path = path.Join(u.Path, name)
	if u.Scheme == "file" {
		return os.ReadFile(filepath.FromSlash(u.Path))
	}
	client := http.Client{Transport: g.transport, Timeout: downloadTimeout}
	res, err := client.Get(u.String())
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", u, res.Status)
	}
	return io.ReadAll(res.Body)
}

func unpack(data []byte, folder string) error {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	for _, f := range archive.File {
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("path %q leaves the bundle's folder", f.Name)
		}
		if err := unpackFile(f, filepath.Join(folder, f.Name)); err != nil {
			return err
		}
	}
	return nil
}

func unpackFile(f *zip.File, to string) error {
	if f.Mode().IsDir() {
		return os.MkdirAll(to, 0o700)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}

// readBundle reads the manifest. A new bundle must have a valid checksum and,
// with a public key set, a valid signature; one on disk is verified if signed.
func (g *gateway) readBundle(folder string, isNew bool) (hooks apidef.MiddlewareSection, err error) {
	var m apidef.BundleManifest
	if err := readJSON(filepath.Join(folder, "manifest.json"), &m); err != nil {
		return hooks, err
	}
	if isNew || m.Signature != "" {
		if err := g.verify(folder, m); err != nil {
			return hooks, err
		}
	}
	return m.CustomMiddleware, nil
}

// verify hashes the files, one after another in the order of file_list.
func (g *gateway) verify(folder string, m apidef.BundleManifest) error {
	if g.conf.publicKey != nil && m.Signature == "" {
		return errors.New("bundle isn't signed, and public_key_path asks for a signature")
	}
	checksum, digest := md5.New(), sha256.New()
	for _, name := range m.FileList {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("file_list: path %q leaves the bundle's folder", name)
		}
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			return fmt.Errorf("file_list: %w", err)
		}
		_, err = io.Copy(io.MultiWriter(checksum, digest), f)
		f.Close()
		if err != nil {
			return fmt.Errorf("file_list: %w", err)
		}
	}
	if got := hex.EncodeToString(checksum.Sum(nil)); got != m.Checksum {
		return fmt.Errorf("invalid checksum: the files have %s, the manifest says %q", got, m.Checksum)
	}
	if g.conf.publicKey == nil {
		return nil
	}
	signature, err := base64.StdEncoding.DecodeString(m.Signature)
	if err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	if err := rsa.VerifyPKCS1v15(g.conf.publicKey, crypto.SHA256, digest.Sum(nil), signature); err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	return nil
}
