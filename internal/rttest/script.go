package rttest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// script is a base in memory that plays its steps in order, and the last one
// for ever. Like net/http's it reads the request's body, closes it once, and
// calls nobody else's CloseIdleConnections.
type script struct {
	mu    sync.Mutex
	steps []step
	seen  []seen
	gave  []*download
	idle  atomic.Int64
}

// step is what one attempt meets.
type step struct {
	status  int
	body    string
	header  http.Header
	nilBody bool                                        // as test doubles often are
	unread  bool                                        // the request's body is closed unread
	do      func(*http.Request) (*http.Response, error) // instead of all the above
}

// seen is what one attempt looked like. It holds on to no request and no context.
type seen struct {
	method, host, url string
	header            http.Header
	body              string
}

func newScript(steps ...step) *script { return &script{steps: steps} }

func answer(status int, body string, header ...string) step {
	h := http.Header{"Content-Type": {"text/plain"}}
	for i := 0; i < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return step{status: status, body: body, header: h}
}

// busy asks for a second's patience.
func busy() step { return answer(http.StatusServiceUnavailable, "busy", "Retry-After", "1") }

// fails answers with an error, and leaves the body unread.
func fails(err error) step {
	return step{unread: true, do: func(*http.Request) (*http.Response, error) { return nil, err }}
}

// refused is how a dial fails when nobody listens.
func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}, Err: syscall.ECONNREFUSED}
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	st, err := s.next(r)
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if err != nil {
		return nil, err
	}
	if r.Body != nil && !st.unread {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.seen[len(s.seen)-1].body = string(b)
		s.mu.Unlock()
	}
	if st.do != nil {
		return st.do(r)
	}
	return s.response(r, st), nil
}

func (s *script) next(r *http.Request) (step, error) {
	if r.URL == nil || r.Header == nil { // as net/http says it
		return step{}, errors.New("http: nil Request.URL or Request.Header")
	}
	if r.Context().Err() != nil {
		return step{}, context.Cause(r.Context())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.steps[min(len(s.seen), len(s.steps)-1)]
	s.seen = append(s.seen, seen{method: r.Method, host: r.Host, url: r.URL.Redacted(), header: r.Header.Clone()})
	return st, nil
}

func (s *script) response(r *http.Request, st step) *http.Response {
	resp := &http.Response{
		StatusCode: st.status, Status: http.StatusText(st.status), Header: st.header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
	}
	if st.nilBody {
		return resp
	}
	d := &download{Reader: strings.NewReader(st.body)}
	resp.Body, resp.ContentLength = d, int64(len(st.body))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gave = append(s.gave, d)
	return resp
}

func (s *script) CloseIdleConnections() { s.idle.Add(1) }

func (s *script) calls() int { return len(s.attempts()) }

func (s *script) attempts() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// unclosed counts the responses, but for the last one, that are still open.
func (s *script) unclosed() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range s.gave {
		if i < len(s.gave)-1 && d.closes.Load() == 0 {
			n++
		}
	}
	return n
}

func (s *script) last() *download {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gave[len(s.gave)-1]
}

// download is a response's body that knows what was done to it.
type download struct {
	io.Reader
	read   atomic.Int64
	closes atomic.Int64
}

func (d *download) Read(p []byte) (int, error) {
	if d.closes.Load() > 0 {
		return 0, errors.New("rttest: read on a closed response body")
	}
	n, err := d.Reader.Read(p)
	d.read.Add(int64(n))
	return n, err
}

func (d *download) Close() error {
	d.closes.Add(1)
	return nil
}
