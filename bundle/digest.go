package main

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// digest takes the bytes of a bundle's files, in the order of file_list, and
// makes of them what the gateway checks.
type digest struct {
	md5    hash.Hash
	sha256 hash.Hash
}

func newDigest() *digest { return &digest{md5.New(), sha256.New()} }

func (d *digest) Write(p []byte) (int, error) {
	d.md5.Write(p)
	return d.sha256.Write(p)
}

// checksum finds accidents; only the signature, over signed, finds malice.
func (d *digest) checksum() string { return hex.EncodeToString(d.md5.Sum(nil)) }

func (d *digest) signed() []byte { return d.sha256.Sum(nil) }
