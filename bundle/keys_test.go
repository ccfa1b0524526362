package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"
	"testing"
)

func writePEM(t *testing.T, path, kind string, der []byte, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestKeygenWritesTheFormsThatTheGatewayReads(t *testing.T) {
	workdir(t)
	call("keygen", "-bits", "3072", "-o", "k.pem", "-pub", "p.pem").mustBeOK(t)

	block, rest := pem.Decode(read(t, "k.pem"))
	if block == nil || block.Type != "RSA PRIVATE KEY" || len(rest) != 0 {
		t.Fatalf("private key: %v", block)
	}
	private, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil || private.N.BitLen() != 3072 {
		t.Fatalf("private key: %v", err)
	}
	block, rest = pem.Decode(read(t, "p.pem"))
	if block == nil || block.Type != "PUBLIC KEY" || len(rest) != 0 {
		t.Fatalf("public key: %v", block)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil || !private.PublicKey.Equal(public) {
		t.Errorf("the public key is not the private key's: %v", err)
	}
	fi, err := os.Stat("k.pem")
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("private key has mode %v", fi.Mode())
	}
}

func TestKeygenOverwritesNothing(t *testing.T) {
	workdir(t)
	private, public := string(read(t, "private.pem")), string(read(t, "public.pem"))
	call("keygen", "-o", "private.pem", "-pub", "new.pem").mustFail(t, 1, "private.pem", "not overwritten")
	call("keygen", "-o", "new.pem", "-pub", "public.pem").mustFail(t, 1, "public.pem", "not overwritten")
	call("keygen", "-o", "none/new.pem", "-pub", "new.pem").mustFail(t, 1, "none/new.pem")
	if string(read(t, "private.pem")) != private || string(read(t, "public.pem")) != public {
		t.Error("an old key was overwritten")
	}
	if _, err := os.Stat("new.pem"); !os.IsNotExist(err) {
		t.Errorf("half a pair was left: %v", err)
	}
}

func TestEveryRSAFormSignsAndVerifies(t *testing.T) {
	workdir(t)
	key := privateKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	writePEM(t, "pkcs8.pem", "PRIVATE KEY", der, err)
	writePEM(t, "pkcs1-public.pem", "RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&key.PublicKey), nil)
	for _, private := range []string{"private.pem", "pkcs8.pem"} {
		call("build", "-key", private, "-o", "out.zip", soAMD).mustBeOK(t)
		for _, public := range []string{"public.pem", "pkcs1-public.pem"} {
			if r := call("verify", "-key", public, "out.zip").mustBeOK(t); !strings.Contains(r.stdout, "signature ok") {
				t.Errorf("%s, %s: %s", private, public, r.stdout)
			}
		}
	}
}

func TestUnusableKeysAreRefused(t *testing.T) {
	workdir(t)
	call("build", "-key", "private.pem", "-o", "bundle.zip", soAMD).mustBeOK(t)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ec)
	writePEM(t, "ec8.pem", "PRIVATE KEY", der, err)
	der, err = x509.MarshalECPrivateKey(ec)
	writePEM(t, "ec.pem", "EC PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(&ec.PublicKey)
	writePEM(t, "ec-public.pem", "PUBLIC KEY", der, err)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, "short.pem", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(short), nil)
	writePEM(t, "short-public.pem", "RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&short.PublicKey), nil)
	writePEM(t, "damaged.pem", "RSA PRIVATE KEY", []byte("x"), nil)
	writePEM(t, "damaged-public.pem", "PUBLIC KEY", []byte("x"), nil)
	writePEM(t, "encrypted.pem", "ENCRYPTED PRIVATE KEY", []byte("x"), nil)
	write(t, "old-encrypted.pem", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"DEK-Info": "AES-128-CBC,00"}, Bytes: []byte("x")}))
	write(t, "text.pem", []byte("no key"))

	for _, step := range []struct{ private, public, want string }{
		{"ec8.pem", "ec-public.pem", "not an RSA key"},
		{"ec.pem", "ec.pem", "EC PRIVATE KEY"},
		{"short.pem", "short-public.pem", "1024 bits"},
		{"damaged.pem", "damaged-public.pem", "damaged"},
		{"encrypted.pem", "encrypted.pem", "is encrypted"},
		{"old-encrypted.pem", "old-encrypted.pem", "is encrypted"},
		{"text.pem", "text.pem", "no PEM key"},
		{"none.pem", "none.pem", "cannot read the key"},
	} {
		t.Run(step.private, func(t *testing.T) {
			call("build", "-key", step.private, "-o", "out.zip", soAMD).mustFail(t, 1, step.private, step.want)
			call("verify", "-key", step.public, "bundle.zip").mustFail(t, 1, step.public, step.want)
		})
	}
	if _, err := os.Stat("out.zip"); !os.IsNotExist(err) {
		t.Errorf("a bundle was written with a refused key: %v", err)
	}
}
