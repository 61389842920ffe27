package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Fault is how a Proxy misbehaves.
type Fault int

const (
	None         Fault = iota // passes everything on
	HoldReplies               // passes requests on and keeps the replies until the fault ends: what was sent has run
	HoldRequests              // reads requests and keeps them until the fault ends: nothing runs before
	HalfReply                 // passes on half of what comes back, and keeps the rest until the fault ends
	ResetReply                // passes on half of what comes back, and resets the connection
	Refuse                    // resets every connection, old and new
)

// A Proxy stands between a client and a Redis server.
type Proxy struct {
	Addr string // of the proxy

	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	change *sync.Cond
	fault  Fault
	delay  time.Duration
	conns  map[net.Conn]bool
	closed bool // takes no more connections
}

// NewProxy starts a proxy in front of the server at addr.
func NewProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: addr, listener: l, conns: map[net.Conn]bool{}}
	p.change = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Set begins a fault, and ends the one before. It holds for connections that
// are open already.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	if f == Refuse {
		p.reset()
	}
	p.change.Broadcast()
}

// Delay holds back everything that comes from the server for d. Zero: no more.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Conns returns how many clients are connected.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) / 2
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.reset()
	p.change.Broadcast()
	p.mu.Unlock()
	p.running.Wait()
}

// reset resets every connection. It is called under mu.
func (p *Proxy) reset() {
	for c := range p.conns {
		reset(c)
	}
	clear(p.conns)
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.add(client, server) {
			reset(client)
			if err == nil {
				reset(server)
			}
			continue
		}
		p.running.Go(func() { p.pass(client, server, p.request) })
		p.running.Go(func() { p.pass(server, client, p.reply) })
	}
}

func (p *Proxy) add(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.fault == Refuse {
		return false
	}
	p.conns[client], p.conns[server] = true, true
	return true
}

// pass moves bytes one way, each piece as the fault of the moment has it.
func (p *Proxy) pass(from, to net.Conn, piece func(to net.Conn, b []byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !piece(to, buffer[:n]) || err != nil {
			break
		}
	}
	p.mu.Lock()
	delete(p.conns, from)
	delete(p.conns, to)
	p.change.Broadcast()
	p.mu.Unlock()
	reset(from)
	reset(to)
}

func (p *Proxy) request(to net.Conn, b []byte) bool {
	p.wait(HoldRequests, to)
	_, err := to.Write(b)
	return err == nil
}

func (p *Proxy) reply(to net.Conn, b []byte) bool {
	fault, delay := p.wait(HoldReplies, to)
	time.Sleep(delay)
	if fault == HalfReply || fault == ResetReply {
		if _, err := to.Write(b[:len(b)/2]); err != nil || fault == ResetReply {
			return false
		}
		b = b[len(b)/2:]
		p.wait(HalfReply, to)
	}
	_, err := to.Write(b)
	return err == nil
}

// wait waits while this is the fault and the connection is open, and returns
// what is then in force.
func (p *Proxy) wait(f Fault, to net.Conn) (Fault, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.fault == f && p.conns[to] {
		p.change.Wait()
	}
	return p.fault, p.delay
}
