package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/ci/cluster/rig"
	"tokenbucket.internal/cluster"
)

// permissions are all that a user of Redis needs; the README tells them.
const permissions = "~ratelimit:* +evalsha +eval +time +get +set +zadd +zrem +zcard +zremrangebyscore +pexpire"

// A user with no more than the permissions that the README names, over TLS.
func TestTLSAndPermissions(t *testing.T) {
	trusted, other := certificate(t), certificate(t)
	t.Setenv("SSL_CERT_FILE", trusted.cert) // read at the first connection
	limit := limitOf(t, "1/h burst 8")

	var lines logged
	l := overTLS(t, trusted, lines.add)
	eventually(t, "the first answer over TLS", 5*second, func() bool { return l.Stats().Up })
	if n := take(l, id, limit, 20); n != 8 {
		t.Errorf("%d admitted of 8", n)
	}
	l.Charge(id, limit, 1)
	l.Refund(id, limit, 1)
	l.Close()
	if st := l.Stats(); st.Failed > 0 || st.Local > 0 || st.Faults > 0 {
		t.Errorf("%+v, log %q", st, lines.all())
	}

	// A certificate that nobody trusts is not used, and the log says why.
	var refusals logged
	l = overTLS(t, other, refusals.add)
	eventually(t, "a line in the log", 5*second, func() bool { return len(refusals.all()) > 0 })
	if line := refusals.all()[0]; l.Stats().Up || !strings.Contains(line, "certificate") || strings.Contains(line, secret) {
		t.Errorf("up %v, log %q", l.Stats().Up, line)
	}
}

const secret = "s3cret/of:a@user"

// overTLS is a gateway on a server of its own, as a user with few permissions.
func overTLS(t *testing.T, c pair, log func(string)) *cluster.Limiter {
	t.Helper()
	free, err := rig.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free)
	r := realRedis(t, "--tls-port", port, "--tls-cert-file", c.cert, "--tls-key-file", c.key, "--tls-ca-cert-file", c.cert, "--tls-auth-clients", "no")
	allow(t, r, "limiter")
	client := dialed(t, "rediss://limiter:"+url.QueryEscape(secret)+"@127.0.0.1:"+port)
	l := cluster.New(cluster.Options{Client: client, Wait: second, Log: log})
	t.Cleanup(func() { l.Close(); _ = client.Close() })
	return l
}

// allow makes a user with the permissions.
func allow(t *testing.T, r *rig.Redis, user string) {
	t.Helper()
	admin := redis.NewClient(&redis.Options{Addr: r.Addr})
	defer func() { _ = admin.Close() }()
	args := []any{"ACL", "SETUSER", user, "on", ">" + secret}
	for _, p := range strings.Fields(permissions) {
		args = append(args, p)
	}
	if err := admin.Do(context.Background(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

// A pair is the files of a certificate that signs itself, and of its key.
type pair struct{ cert, key string }

func certificate(t *testing.T) pair {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	p := pair{filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")}
	for path, block := range map[string]*pem.Block{p.cert: {Type: "CERTIFICATE", Bytes: cert}, p.key: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}
