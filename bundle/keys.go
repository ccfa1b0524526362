package main

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

const keygenUsage = `usage: bundle keygen [-bits 2048] -o private.pem -pub public.pem

Makes an RSA key pair. Sign bundles with the private key, and set the gateway's
public_key_path to the public one. No file is ever overwritten.

  -o FILE     where the private key goes (readable by you only)
  -pub FILE   where the public key goes
  -bits N     the key's size, 2048 to 8192 (default 2048)

Keys that openssl made do as well:
  openssl genrsa -out private.pem 2048
  openssl rsa -in private.pem -pubout -out public.pem
`

const (
	minBits = 2048 // shorter keys can be broken
	maxBits = 8192
)

// keygen writes the forms that every version of the gateway and of its own
// bundler reads: PKCS#1 for the private key, PKIX for the public one.
func keygen(fs *flag.FlagSet, args []string, stdout io.Writer) error {
	private := fs.String("o", "", "")
	public := fs.String("pub", "", "")
	bits := fs.Int("bits", minBits, "")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return usageError(fmt.Sprintf("%q is too much: keygen takes only flags", fs.Arg(0)))
	case *private == "" || *public == "":
		return usageError("give -o for the private key and -pub for the public key")
	case *private == *public:
		return usageError("-o and -pub name the same file: give each its own")
	case *bits < minBits || *bits > maxBits:
		return usageError(fmt.Sprintf("-bits %d: give %d to %d", *bits, minBits, maxBits))
	}
	key, err := rsa.GenerateKey(rand.Reader, *bits)
	if err != nil {
		return fmt.Errorf("cannot make a key: %w", err)
	}
	pub, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("cannot make a key: %w", err)
	}
	if err := writeNew(*private, 0o600, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)); err != nil {
		return err
	}
	if err := writeNew(*public, 0o644, "PUBLIC KEY", pub); err != nil {
		os.Remove(*private) // half a pair is of no use
		return err
	}
	fmt.Fprintf(stdout, "private key  %s  keep it secret; sign with: bundle build -key %[1]s\n", *private)
	fmt.Fprintf(stdout, "public key   %s  the gateway's public_key_path\n", *public)
	return nil
}

func writeNew(path string, mode os.FileMode, kind string, der []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists and is not overwritten: move it away or choose another name", path)
	}
	if err != nil {
		return fmt.Errorf("cannot write the key: %w: give a writable folder", err)
	}
	err = errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Close())
	if err != nil {
		os.Remove(path)
		return fmt.Errorf("cannot write the key: %w", err)
	}
	return nil
}

func readPrivateKey(path string) (*rsa.PrivateKey, error) {
	block, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	var key any
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("%s holds a %q: sign with an RSA private key (\"bundle keygen\" makes one)", path, block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: damaged private key: %w", path, err)
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an RSA key: the gateway checks only RSA signatures (\"bundle keygen\" makes a key)", path)
	}
	return private, checkBits(path, &private.PublicKey)
}

func readPublicKey(path string) (*rsa.PublicKey, error) {
	block, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	var key any
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return nil, fmt.Errorf("%s holds a %q: verify with the RSA public key (openssl rsa -in private.pem -pubout)", path, block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: damaged public key: %w", path, err)
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an RSA key: the gateway checks only RSA signatures", path)
	}
	return public, checkBits(path, public)
}

func readPEM(path string) (*pem.Block, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM key: give an RSA key in PEM form (\"bundle keygen\" makes one)", path)
	}
	if strings.Contains(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != "" {
		return nil, fmt.Errorf("%s is encrypted: give the plain key (openssl rsa -in %[1]s -out plain.pem)", path)
	}
	return block, nil
}

func checkBits(path string, key *rsa.PublicKey) error {
	if n := key.N.BitLen(); n < minBits {
		return fmt.Errorf("%s has only %d bits: use a key of %d or more (\"bundle keygen\" makes one)", path, n, minBits)
	}
	return nil
}

func sign(key *rsa.PrivateKey, d *digest) (string, error) {
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, d.signed())
	if err != nil {
		return "", fmt.Errorf("cannot sign: %w", err)
	}
	return base64.StdEncoding.EncodeToString(signature), nil
}

// checkSignature returns what there is to say of a signature that is not wrong.
func checkSignature(signature string, d *digest, key *rsa.PublicKey) (string, error) {
	switch {
	case signature == "":
		return unsigned, nil
	case key == nil:
		return "not checked: no -key", nil
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return "", fmt.Errorf("wrong signature: it is not base64: %w: build the bundle again", err)
	}
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, d.signed(), raw); err != nil {
		return "", fmt.Errorf("wrong signature: not made with this key over these files: build the bundle again, or use the key that belongs to it")
	}
	return fmt.Sprintf("ok (RSA, %d bits, SHA-256; of the files' bytes: not of their names and the hooks)", key.N.BitLen()), nil
}
