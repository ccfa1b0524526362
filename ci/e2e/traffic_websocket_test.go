package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

var websockets = []string{
	shared.api(rig.API{ID: "websocket"}),
	shared.api(rig.API{ID: "websocket-oas", OAS: true}),
}

func TestWebsocketUpgradeCostsOneTokenAndStaysOpen(t *testing.T) {
	t.Parallel()
	for _, api := range websockets {
		c := of(t, api)
		key := c.key(limits("1/h burst 3"))
		var open []*upgraded
		for range 2 {
			u := c.upgrade(key)
			if u.res.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%s: %s", api, u.res.Status)
			}
			open = append(open, u)
		}
		c.admits(1, 2, rig.Request{Key: key}) // a plain request pays from the same bucket
		refused := c.upgrade(key).res
		if refused.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: %s, want 429", api, refused.Status)
		}
		wantHeader(t, rig.Reply{Header: refused.Header}, ofRefused)
		for _, u := range open { // what is open is not a request any more
			if got := u.echo("hello\n"); got != "hello\n" {
				t.Errorf("%s: the echo of hello is %q", api, got)
			}
		}
		c.wantRefused(key)
	}
}

// upgraded is a connection after its handshake.
type upgraded struct {
	net.Conn
	reader *bufio.Reader
	res    *http.Response
}

// upgrade asks for a websocket.
func (c *client) upgrade(key string) *upgraded {
	c.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.g.URL, "http://"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "GET /%s/ws HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", c.api, key)
	u := &upgraded{Conn: conn, reader: bufio.NewReader(conn)}
	if u.res, err = http.ReadResponse(u.reader, nil); err != nil {
		c.t.Fatal(err)
	}
	if u.res.StatusCode == http.StatusSwitchingProtocols {
		c.served++
	}
	return u
}

// echo sends a line and returns what comes back.
func (u *upgraded) echo(line string) string {
	if _, err := fmt.Fprint(u, line); err != nil {
		return err.Error()
	}
	got, err := u.reader.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return got
}
