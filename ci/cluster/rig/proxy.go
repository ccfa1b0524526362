package rig

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Proxy is a network between a client and a server. Connections survive a
// cut, as they do when a cable is pulled.
type Proxy struct {
	Addr   string
	target string
	listen net.Listener
	delay  atomic.Int64 // each way
	cutOut atomic.Bool  // nothing reaches the server
	cutIn  atomic.Bool  // nothing reaches the client

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	ended  sync.WaitGroup
}

// NewProxy listens on a free port.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listen: l, conns: make(map[net.Conn]bool)}
	p.ended.Add(1)
	go p.accept()
	return p, nil
}

// Delay holds everything up for so long, each way.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Cut drops what is on its way to the server (out) and to the client (in).
func (p *Proxy) Cut(out, in bool) {
	p.cutOut.Store(out)
	p.cutIn.Store(in)
}

// Reset breaks all connections.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listen.Close()
	p.Reset()
	p.ended.Wait()
}

func (p *Proxy) accept() {
	defer p.ended.Done()
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		go p.carry(client, server, &p.cutOut)
		go p.carry(server, client, &p.cutIn)
	}
}

func (p *Proxy) keep(a, b net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = a.Close()
		_ = b.Close()
		return false
	}
	p.conns[a], p.conns[b] = true, true
	p.ended.Add(2)
	return true
}

// A chunk arrives at its time.
type chunk struct {
	data []byte
	due  time.Time
}

func (p *Proxy) carry(from, to net.Conn, cut *atomic.Bool) {
	defer p.ended.Done()
	way := make(chan chunk, 1024)
	p.ended.Add(1)
	go func() {
		defer p.ended.Done()
		for c := range way {
			time.Sleep(time.Until(c.due))
			if !cut.Load() {
				_, _ = to.Write(c.data)
			}
		}
		_ = to.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			way <- chunk{append([]byte(nil), buffer[:n]...), time.Now().Add(time.Duration(p.delay.Load()))}
		}
		if err != nil {
			break
		}
	}
	close(way)
	_ = from.Close()
	p.mu.Lock()
	delete(p.conns, from)
	p.mu.Unlock()
}
