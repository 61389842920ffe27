// Package pipenet is a network in memory for tests that run in a
// [testing/synctest] bubble.
//
// A real socket blocks in the kernel, where a bubble cannot see that it waits,
// so its clock stops. A [Listener] is made of channels and [net.Pipe] alone: a
// bubble over it goes idle, its clock jumps, and a test of an hour's wait takes
// a millisecond.
//
//	ln := pipenet.Listen()
//	srv := &http.Server{Handler: h}
//	go srv.Serve(ln)
//	client := &http.Client{Transport: &http.Transport{DialContext: ln.DialContext}}
//
// [Serve] does this in one line for a test. Everything must be made, used and
// closed inside one bubble: nothing may outlive it, idle connections included.
//
// It does as much as the tests need and no more. When the oldest supported
// release of Go has the in-memory network of [net/http/httptest]
// (golang/go#76608), that takes its place.
package pipenet

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
)

// Listener accepts what its own DialContext dials, whatever the address.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	stop  sync.Once // httptest and http.Server both call Close

	mu     sync.Mutex
	open   map[*conn]struct{}
	dialed int
}

// Listen returns a listener that is ready to be dialed.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), done: make(chan struct{}), open: make(map[*conn]struct{})}
}

// DialContext has the type of [net/http.Transport.DialContext]. It waits for an
// Accept, and fails with a dial error as [net.Dialer] does when ctx ends or the
// listener is closed.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		c := &conn{Conn: client, l: l}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.dialed++
		l.open[c] = struct{}{}
		return c, nil
	case <-l.done:
		return nil, l.dialError(net.ErrClosed)
	case <-ctx.Done():
		return nil, l.dialError(ctx.Err())
	}
}

// Accept returns the server's end of the next dialed connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and DialContext. Connections stay open, as they do in net.
func (l *Listener) Close() error {
	l.stop.Do(func() { close(l.done) })
	return nil
}

// Addr returns an address that says only where it came from.
func (l *Listener) Addr() net.Addr { return addr{} }

// Dialed counts the connections made so far.
func (l *Listener) Dialed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialed
}

// Open counts the connections that the client's side has not closed.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Cut closes every connection, as a pulled cable would.
func (l *Listener) Cut() {
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

func (l *Listener) dialError(err error) error {
	return &net.OpError{Op: "dial", Net: "pipe", Addr: l.Addr(), Err: err}
}

// conn is the client's end. It takes itself off the list when it is closed.
type conn struct {
	net.Conn
	l *Listener
}

func (c *conn) Close() error {
	c.l.mu.Lock()
	delete(c.l.open, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "pipenet" }
