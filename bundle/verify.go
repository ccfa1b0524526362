package main

import (
	"crypto/rsa"
	"errors"
	"flag"
	"fmt"
	"io"
)

const verifyUsage = `usage: bundle verify [-key public.pem] BUNDLE.zip

Checks that a gateway would accept the bundle and run all of its hooks, and that
it holds nothing else. BUNDLE may also be a folder into which a gateway has
unpacked one.

  -key FILE  an RSA public key (PEM), the file that the gateway's
             public_key_path names; a bundle without a signature is then refused

The signature covers the bytes of the files, not the manifest: that is how the
gateway's format is defined.
`

func verify(fs *flag.FlagSet, args []string, stdout io.Writer) error {
	keyPath := fs.String("key", "", "")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return usageError("give one bundle to verify")
	}
	var key *rsa.PublicKey
	if *keyPath != "" {
		var err error
		if key, err = readPublicKey(*keyPath); err != nil {
			return err
		}
	}
	path := fs.Arg(0)
	s, err := verifyBundle(path, key)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fmt.Fprintf(stdout, "%s: ok\n\n", path)
	s.print(stdout)
	return nil
}

func verifyBundle(path string, key *rsa.PublicKey) (*summary, error) {
	entries, closer, err := openBundle(path)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	if err := checkEntries(entries); err != nil {
		return nil, err
	}
	m, err := readManifest(entries)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if err := checkListed(m, entries); err != nil {
		return nil, err
	}
	if key != nil && m.Signature == "" {
		return nil, errors.New("the bundle is not signed: build it with -key private.pem")
	}
	d := newDigest()
	s := &summary{manifest: m}
	for _, name := range m.FileList {
		n, err := find(entries, name).copyTo(d)
		if err != nil {
			return nil, err
		}
		s.sizes = append(s.sizes, n)
	}
	if sum := d.checksum(); sum != m.Checksum {
		return nil, fmt.Errorf("wrong checksum: the files have %s, the manifest says %q: a file was changed; build the bundle again", sum, m.Checksum)
	}
	s.signature, err = checkSignature(m.Signature, d, key)
	return s, err
}

// checkListed refuses a bundle whose files are not exactly those of file_list.
func checkListed(m *manifest, entries []entry) error {
	listed := map[string]bool{manifestName: true}
	for _, name := range m.FileList {
		if find(entries, name) == nil {
			return fmt.Errorf("missing file: %q is in file_list but not in the bundle: build the bundle again", name)
		}
		listed[name] = true
	}
	for _, e := range entries {
		if !listed[e.name] {
			return fmt.Errorf("extra file: %q is not in file_list, so nothing vouches for it: build the bundle again", e.name)
		}
	}
	return nil
}
