package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const buildUsage = `usage: bundle build [flags] FILE.so [FILE.so ...]

Puts the files and the manifest into a zip that a gateway loads. The manifest's
file_list, checksum and signature are filled in; the rest stays as it is.
The same input gives the same zip.

One bundle can serve several gateways. For a hook with the path tokenbucket.so
a gateway v5.14.0 on linux/amd64 takes tokenbucket_v5.14.0_linux_amd64.so if the
bundle has it, and tokenbucket.so otherwise.

  -manifest FILE  the manifest to start from (default manifest.json)
  -key FILE       sign with this RSA private key (PEM); a gateway with
                  public_key_path set refuses a bundle without a signature
  -o FILE         the zip to write (default: the -name)
  -name NAME      the name that API definitions will ask for
                  (default: the file name of -o)

A gateway never downloads a bundle name twice: give every release a new name.
The signature covers the bytes of the files, not the manifest: that is how the
gateway's format is defined.
`

// zipTime is the earliest time that a zip can hold.
var zipTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func build(fs *flag.FlagSet, args []string, stdout io.Writer) error {
	manifestPath := fs.String("manifest", manifestName, "")
	keyPath := fs.String("key", "", "")
	out := fs.String("o", "", "")
	name := fs.String("name", "", "")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return usageError("no files given: name the .so files to put into the bundle")
	}
	if *out == "" {
		*out = *name
	}
	if *out == "" {
		return usageError("no output given: add -o out.zip")
	}
	if *name == "" {
		*name = filepath.Base(*out)
	}
	if err := checkName(*name); err != nil {
		return usageError("-name: " + err.Error())
	}
	b := builder{files: fs.Args()}
	if err := b.load(*manifestPath, *keyPath); err != nil {
		return err
	}
	if err := b.checkInputs(); err != nil {
		return err
	}
	if err := b.checkOutput(*out, *manifestPath, *keyPath); err != nil {
		return err
	}
	if err := writeFile(*out, b.write); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n\n", *out)
	b.print(stdout)
	fmt.Fprintf(stdout, "\nServe it at the gateway's bundle_base_url as %q and set\n", *name)
	fmt.Fprintf(stdout, "\"custom_middleware_bundle\": %q in the API definition.\n", *name)
	return nil
}

// builder makes one bundle.
type builder struct {
	summary
	files []string // paths; the base names are in manifest.FileList
	sign  func(*digest) (string, error)
}

// load reads everything but the files, and checks that they fit the manifest.
func (b *builder) load(manifestPath, keyPath string) error {
	f, err := os.Open(manifestPath)
	if err != nil {
		return fmt.Errorf("no manifest: %w: name one with -manifest", err)
	}
	defer f.Close()
	m, err := decodeManifest(f)
	if err != nil {
		return fmt.Errorf("%s: %w", manifestPath, err)
	}
	m.FileList = nil
	for _, file := range b.files {
		m.FileList = append(m.FileList, filepath.Base(file))
	}
	if err := m.check(); err != nil {
		return fmt.Errorf("%s: %w", manifestPath, err)
	}
	if err := m.checkUsed(); err != nil {
		return fmt.Errorf("%s: %w", manifestPath, err)
	}
	b.manifest, b.sign = m, func(*digest) (string, error) { return "", nil }
	if keyPath == "" {
		b.signature = unsigned
		return nil
	}
	key, err := readPrivateKey(keyPath)
	if err != nil {
		return err
	}
	b.signature = fmt.Sprintf("RSA, %d bits, SHA-256", key.N.BitLen())
	b.sign = func(d *digest) (string, error) { return sign(key, d) }
	return nil
}

func (b *builder) checkInputs() error {
	var total int64
	for _, file := range b.files {
		fi, err := os.Stat(file)
		switch {
		case err != nil:
			return fmt.Errorf("missing file: %w: build the plugin first", err)
		case !fi.Mode().IsRegular():
			return fmt.Errorf("%s is not a file: name the .so files themselves", file)
		case fi.Size() == 0:
			return fmt.Errorf("%s is empty: build the plugin again", file)
		}
		total += fi.Size()
	}
	if total > maxUnpacked {
		return fmt.Errorf("the files have %d bytes, more than %d: make several bundles", total, int64(maxUnpacked))
	}
	return nil
}

// checkOutput refuses to replace a file that the bundle is made of.
func (b *builder) checkOutput(out string, inputs ...string) error {
	old, err := os.Stat(out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot write the bundle: %w: choose another -o", err)
	}
	if !old.Mode().IsRegular() {
		return fmt.Errorf("cannot write the bundle: %s is not a file: give a file name to -o", out)
	}
	for _, in := range append(inputs, b.files...) {
		if fi, err := os.Stat(in); err == nil && os.SameFile(old, fi) {
			return fmt.Errorf("cannot write the bundle over its own input %s: choose another -o", in)
		}
	}
	return nil
}

// write writes the zip: the files, each read once, then the manifest.
func (b *builder) write(w io.Writer) error {
	zw, d := zip.NewWriter(w), newDigest()
	for i, file := range b.files {
		dst, err := createEntry(zw, b.manifest.FileList[i])
		if err != nil {
			return err
		}
		n, err := copyFile(io.MultiWriter(dst, d), file)
		if err != nil {
			return err
		}
		b.sizes = append(b.sizes, n)
	}
	signature, err := b.sign(d)
	if err != nil {
		return err
	}
	b.manifest.Checksum, b.manifest.Signature = d.checksum(), signature
	data, err := json.Marshal(b.manifest)
	if err != nil {
		return err
	}
	dst, err := createEntry(zw, manifestName)
	if err != nil {
		return err
	}
	if _, err := dst.Write(data); err != nil {
		return err
	}
	return zw.Close()
}

func createEntry(zw *zip.Writer, name string) (io.Writer, error) {
	return zw.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: zipTime})
}

func copyFile(w io.Writer, path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("cannot read a file: %w", err)
	}
	defer f.Close()
	n, err := io.Copy(w, f)
	if err != nil {
		return 0, fmt.Errorf("cannot pack %s: %w", path, err)
	}
	return n, nil
}

// writeFile makes the file appear complete or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".bundle-*")
	if err != nil {
		return fmt.Errorf("cannot write the bundle: %w: give a writable folder to -o", err)
	}
	defer func() {
		f.Close()
		os.Remove(f.Name()) // fails after the rename, which is fine
	}()
	if err := write(f); err != nil {
		return err
	}
	// A web server that runs as another user must be able to read it.
	for _, step := range []func() error{func() error { return f.Chmod(0o644) }, f.Sync, f.Close} {
		if err := step(); err != nil {
			return fmt.Errorf("cannot write the bundle: %w", err)
		}
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("cannot write the bundle: %w", err)
	}
	return nil
}
