package shed_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/politehttp/polite/shed"
)

// work takes so long.
func work(d time.Duration) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(d) })
}

// held is a handler that holds what comes in until the test lets it go.
type held struct {
	inside, most atomic.Int32
	out          chan func() // what one of those inside does last
}

func newHeld() *held { return &held{out: make(chan func())} }

func (h *held) ServeHTTP(http.ResponseWriter, *http.Request) {
	n := h.inside.Add(1)
	defer h.inside.Add(-1)
	for {
		most := h.most.Load()
		if n <= most || h.most.CompareAndSwap(most, n) {
			break
		}
	}
	if end := <-h.out; end != nil {
		end()
	}
}

// let lets n of those inside go, one after the other.
func (h *held) let(n int) {
	for range n {
		h.out <- nil
		synctest.Wait()
	}
}

// a call that is on its way through a handler.
type call struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
	ended chan struct{}
	took  time.Duration
}

func (c *call) isOver() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// send sends a request with the given header fields, and returns once it is
// inside, waits or is answered.
func send(h http.Handler, path string, fields ...string) *call {
	c := start(h, request(path, fields...))
	synctest.Wait()
	return c
}

func request(path string, fields ...string) *http.Request {
	u, err := url.ParseRequestURI(path)
	if err != nil {
		panic(err)
	}
	// Not httptest's, which has each parsed from what a client would send.
	r := &http.Request{
		Method: "GET", URL: u, RequestURI: path, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Host: "example.com", RemoteAddr: "192.0.2.1:1234",
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

// start sends a request. A panic of the handler ends the call as it ends a
// connection of net/http.
func start(h http.Handler, r *http.Request) *call {
	ctx, cancel := context.WithCancel(r.Context())
	c := &call{ResponseRecorder: httptest.NewRecorder(), leave: cancel, ended: make(chan struct{})}
	began := time.Now()
	go func() {
		defer func() {
			c.took = time.Since(began)
			close(c.ended)
			recover()
		}()
		h.ServeHTTP(c, r.WithContext(ctx))
	}()
	return c
}

// startAll starts n requests at once.
func startAll(h http.Handler, n int, path string, fields ...string) []*call {
	all := make([]*call, n)
	for i := range all {
		all[i] = start(h, request(path, fields...))
	}
	synctest.Wait()
	return all
}

// await waits until all calls are over.
func await(all ...*call) {
	for _, c := range all {
		<-c.ended
	}
}

// served is how many were answered with 200.
func served(all ...*call) int {
	n := 0
	for _, c := range all {
		if c.Code == http.StatusOK {
			n++
		}
	}
	return n
}

func byHeader(name string) func(*http.Request) string {
	return func(r *http.Request) string { return r.Header.Get(name) }
}

func yes(*http.Request) bool { return true }

// events are what a hook was told.
type events struct {
	mu  sync.Mutex
	all []shed.Event
}

func (e *events) note(one shed.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, one)
}

func (e *events) classes() []shed.Class {
	var all []shed.Class
	for _, one := range e.all {
		all = append(all, one.Class)
	}
	return all
}
