package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// tally is what came of a caller's work.
type tally struct {
	mu      sync.Mutex
	sent    int           // requests that were answered
	refused int           // of which with 429
	calls   int           // that were admitted in the end
	waited  time.Duration // by those, all together
	longest time.Duration
	later   time.Duration // the last call was to come back after so long; zero: it was admitted
	problem error         // anything else that went wrong; the first
}

func (t *tally) answered(status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent++
	if status == http.StatusTooManyRequests {
		t.refused++
	}
}

func (t *tally) ended(c *call) {
	wait := time.Since(c.begin) - time.Duration(c.onWire.Load())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	t.waited += wait
	t.longest = max(t.longest, wait)
	t.later = 0
}

func (t *tally) notBefore(wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.later = wait
}

func (t *tally) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.problem == nil {
		t.problem = err
	}
}

func (t *tally) admitted() int { return t.sent - t.refused }

func (t *tally) average() time.Duration { return t.waited / time.Duration(max(1, t.calls)) }

// add adds another's counts to a sum that is the caller's own.
func (t *tally) add(other *tally) {
	other.mu.Lock()
	defer other.mu.Unlock()
	t.sent += other.sent
	t.refused += other.refused
}

// call is one call, with all of its tries.
type call struct {
	begin  time.Time
	onWire atomic.Int64 // nanoseconds: the rest of its time it waited
}

type callKey struct{}

// wire counts what really goes out and comes back, below anything polite.
type wire struct {
	base http.RoundTripper
	of   *caller
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	begin := time.Now()
	resp, err := w.base.RoundTrip(r)
	if one, ok := r.Context().Value(callKey{}).(*call); ok {
		one.onWire.Add(int64(time.Since(begin)))
	}
	if err == nil {
		w.of.answered(resp.StatusCode)
	}
	return resp, err
}
