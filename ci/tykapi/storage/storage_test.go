package storage

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/config"
)

// answer stands for a Redis that knows few commands.
func answer(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		switch strings.ToLower(lines.Text()) {
		case "hello":
			_, _ = conn.Write([]byte("-ERR unknown command\r\n"))
		case "ping", "client":
			_, _ = conn.Write([]byte("+OK\r\n"))
		}
	}
}

func TestClientOnceRedisAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	h := NewConnectionHandler(ctx)
	if c, err := (&RedisCluster{ConnectionHandler: h}).Client(); c != nil || err == nil {
		t.Fatalf("%v, %v before Connect", c, err)
	}
	connected := make(chan struct{})
	address := listener.Addr().(*net.TCPAddr)
	go h.Connect(ctx, func() { close(connected) }, &config.Config{Storage: config.StorageOptionsConf{Host: "127.0.0.1", Port: address.Port}})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	select {
	case <-connected:
	case <-ctx.Done():
		t.Fatal("not connected")
	}
	if c, err := (&RedisCluster{ConnectionHandler: h}).Client(); c == nil || err != nil {
		t.Fatalf("%v, %v", c, err)
	}
}
