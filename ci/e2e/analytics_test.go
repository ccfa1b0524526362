package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

func TestRefusalIsInTheAnalytics(t *testing.T) {
	realOnly(t, "analytics")
	t.Parallel()
	g := own(t, rig.Options{APIs: []rig.API{{ID: "analytics"}}, Conf: rig.Object{"enable_analytics": true}})
	c := clientOf(t, g, "analytics")
	key := c.key(limits("1/h burst 1"))
	c.admits(1, 3, rig.Request{Key: key}) // refused in pre, without a session
	until(t, 20*time.Second, func() error {
		records, err := redisDo(g.RedisPort(), "LRANGE", "analytics-tyk-system-analytics", "0", "-1")
		if err != nil {
			return err
		}
		// msgpack: the field's name, then 429 as a 16-bit number.
		refused := 0
		for _, kind := range []string{"\xcd", "\xd1"} {
			refused += bytes.Count(records, []byte("ResponseCode"+kind+"\x01\xad"))
		}
		if refused != 2 {
			return fmt.Errorf("%d records of a refusal, want 2", refused)
		}
		return nil
	})
}

// redisDo sends one command and returns the answer as it comes.
func redisDo(port int, words ...string) ([]byte, error) {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	for _, command := range [][]string{words, {"QUIT"}} {
		fmt.Fprintf(conn, "*%d\r\n", len(command))
		for _, word := range command {
			fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	return io.ReadAll(conn)
}

var graphQL = shared.api(rig.API{ID: "graphql", Fields: rig.Object{"graphql": rig.Object{
	"enabled": true, "execution_mode": "proxyOnly", "version": "2",
	"schema":                    "type Query { hello: String }",
	"type_field_configurations": []any{}, "playground": rig.Object{"enabled": false, "path": ""},
}}})

func TestGraphQLProxyIsLimited(t *testing.T) {
	realOnly(t, "GraphQL")
	t.Parallel()
	c := of(t, graphQL)
	q := rig.Request{
		Method: "POST", Body: `{"query": "{ hello }"}`, Header: rig.Header{"Content-Type": "application/json"},
		Key: c.key(limits("1/h burst 3")),
	}
	c.admits(3, 5, q)
	if r := c.send(rig.Request{Method: "POST", Body: `{"query": "{ nothing }"}`, Header: q.Header, Key: c.key(limits("1/h"))}); r.OK() || !strings.Contains(r.Body, "nothing") {
		t.Errorf("the gateway does not take it for GraphQL: %v", r)
	}
}

// A deleted key is forgotten by the gateway's cache before the case ends, and
// made anew with the same id it has the bucket that it had.
func TestKeyMadeAnewHasNoFreshBurst(t *testing.T) {
	t.Parallel()
	c := of(t, anew)
	k := rig.Key{APIs: []string{c.api}, Metadata: limits("1/h burst 3")}
	for range 2 {
		if err := c.g.CreateKeyAs(context.Background(), "made-anew-0123", k); err != nil {
			t.Fatal(err)
		}
		c.get("made-anew-0123")
		if err := c.g.DeleteKey(context.Background(), "made-anew-0123"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.g.CreateKeyAs(context.Background(), "made-anew-0123", k); err != nil {
		t.Fatal(err)
	}
	c.admits(1, 3, rig.Request{Key: "made-anew-0123"})
}

var anew = shared.api(rig.API{ID: "made-anew"})
