package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/politehttp/polite/shed"
)

const (
	workers = 10
	takes   = 20 * time.Millisecond
)

// pool is work that needs one of the workers for a while. Who finds none waits,
// and has the work done also if its client has left meanwhile: most handlers do
// not look.
type pool struct {
	free   chan struct{}
	closed chan struct{} // the server is no longer needed
}

func newPool() *pool {
	return &pool{free: make(chan struct{}, workers), closed: make(chan struct{})}
}

func (p *pool) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	select {
	case p.free <- struct{}{}:
	case <-p.closed:
		return
	}
	defer func() { <-p.free }()
	time.Sleep(takes)
	w.Write([]byte("done\n"))
}

// running is a server that answers on loopback.
type running struct {
	url  string
	pool *pool
	http *http.Server
	done chan struct{}
}

// serve starts a server; gate nil: without one.
func serve(gate *shed.Gate) (*running, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &running{url: "http://" + l.Addr().String() + "/", pool: newPool(), done: make(chan struct{})}
	var h http.Handler = r.pool
	if gate != nil { // the whole difference
		h = gate.Handler(h)
	}
	r.http = &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second,
		// Who waits holds an open file. Without the Gate there may not be enough of
		// them, and net/http says so for each connection.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(r.done)
		r.http.Serve(l)
	}()
	return r, nil
}

// stop ends the server, and lets go of who still waits in it.
func (r *running) stop() {
	close(r.pool.closed)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if r.http.Shutdown(ctx) != nil {
		r.http.Close()
	}
	<-r.done
}
