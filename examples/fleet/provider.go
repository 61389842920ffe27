package main

import (
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/politehttp/polite/limiter"
)

// provider is an API that limits one account, and counts who calls.
type provider struct {
	url   string
	burst int64

	server *http.Server
	mu     sync.Mutex
	began  time.Time
	calls  []call // in order of their arrival
	size   int
}

// call is one that came.
type call struct {
	at      time.Duration // since the start
	process int
	refused bool
}

// startProvider serves on a free port of this machine.
func startProvider(rate int64, processes int) (*provider, error) {
	p := &provider{burst: max(rate/4, 10), size: processes, began: time.Now()}
	limit, err := limiter.TokenBucket("calls", limiter.Per(rate, time.Second), p.burst)
	if err != nil {
		return nil, err
	}
	guard := &limiter.Guard{
		Rules: []limiter.Rule{{
			Key:    func(*http.Request) string { return "the account" },
			Limits: []*limiter.Limit{limit},
		}},
	}
	if err := guard.Check(); err != nil {
		return nil, err
	}
	work := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(*noting).admitted = true
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p.url = "http://" + l.Addr().String()
	p.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := &noting{ResponseWriter: w}
			at := time.Now()
			work.ServeHTTP(n, r)
			p.note(at, r.Header.Get(header), !n.admitted)
		}),
	}
	go func() { _ = p.server.Serve(l) }() // until close
	return p, nil
}

// noting is told whether the limit let a request pass.
type noting struct {
	http.ResponseWriter
	admitted bool
}

// Unwrap is for http.ResponseController.
func (n *noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }

func (p *provider) note(at time.Time, process string, refused bool) {
	i, err := strconv.Atoi(process)
	if err != nil || i < 0 || i >= p.size {
		return // none of the fleet
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := at.Sub(p.began); since >= 0 {
		p.calls = append(p.calls, call{since, i, refused})
	}
}

// begin starts the clock.
func (p *provider) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.calls = time.Now(), nil
}

// counts is what came so far.
func (p *provider) counts() *counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &counts{lasted: time.Since(p.began), calls: p.calls[:len(p.calls):len(p.calls)], size: p.size}
}

func (p *provider) close() { _ = p.server.Close() }
