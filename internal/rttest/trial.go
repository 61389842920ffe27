package rttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/pipenet"
)

// patience is the fake time after which a case that still waits has failed.
const patience = 7 * 24 * time.Hour

// provider is where every request of the checks goes.
const provider = "http://provider.test/v1/things?page=2"

var errGiveUp = errors.New("rttest: this trial ends now")

// trial is one run of one check, or of one case of it. It is a
// [require.TestingT] that gathers failures instead of failing a test, so that
// the checks themselves can be tested against transports that are broken.
type trial struct {
	*options
	bubble   *testing.T
	root     context.Context // of every request; ends before the bubble does
	prefix   string
	mu       *sync.Mutex
	failures *[]string
}

func inBubble(t *testing.T, o *options, f func(*trial)) []string {
	t.Helper()
	var failures []string
	synctest.Test(t, func(t *testing.T) {
		root, cancel := context.WithCancelCause(t.Context())
		(&trial{options: o, bubble: t, root: root, mu: new(sync.Mutex), failures: &failures}).guard(f, 100*patience)
		cancel(errGiveUp)
		time.Sleep(patience) // a bubble's clock stops with its first goroutine: let the others end
	})
	return failures
}

// in runs a case: its failures bear its name, and a fatal one ends it alone.
func (t *trial) in(name string, f func(*trial)) {
	c := *t
	c.prefix = t.prefix + name + ": "
	c.guard(f, patience)
}

// guard runs f to its end, its first fatal failure, a panic or the limit.
func (t *trial) guard(f func(*trial), limit time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f(t)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Errorf("still waiting after %v of fake time", limit)
	}
}

func (t *trial) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*t.failures = append(*t.failures, t.prefix+fmt.Sprintf(format, args...))
}

// FailNow ends the case's goroutine. Like testing's own, it is called from it.
func (t *trial) FailNow() { runtime.Goexit() }

// retrying tells whether the transport is expected to try again.
func (t *trial) retrying() bool { return !t.noRetry }

// refusals runs f with every variant that refuses by itself, as it should.
func (t *trial) refusals(f func(t *trial, rt http.RoundTripper, base *script)) {
	for _, v := range t.refusing {
		t.in(v.name, func(t *trial) {
			base := newScript(answer(http.StatusOK, "sent all the same"))
			f(t, v.wrap(base), base)
			require.Zero(t, base.calls(), "calls of the base by a transport that should refuse")
		})
	}
}

// serve answers with h over real HTTP/1.1 in memory, through the transport.
func (t *trial) serve(h http.HandlerFunc) (*pipenet.Listener, http.RoundTripper) {
	l, base := pipenet.Serve(t.bubble, h)
	return l, t.wrap(base)
}

// context ends, at the latest, with the check.
func (t *trial) context() (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(t.root)
}

func (t *trial) request(method string, body io.ReadCloser) *http.Request {
	r, err := http.NewRequestWithContext(t.root, method, provider, nil)
	require.NoError(t, err)
	if body != nil {
		r.Body = body
	}
	return r
}

func (t *trial) get() *http.Request { return t.request(http.MethodGet, nil) }

// respond sends r, which must have a response, and closes it with the bubble.
func (t *trial) respond(rt http.RoundTripper, r *http.Request) *http.Response {
	resp, err := rt.RoundTrip(r)
	require.NoError(t, err)
	require.NotNil(t, resp)
	if resp.Body != nil {
		t.bubble.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp
}

// read returns the whole body and closes it.
func (t *trial) read(resp *http.Response) string {
	require.NotNil(t, resp.Body, "response body")
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err, "reading the response body")
	require.NoError(t, resp.Body.Close(), "closing the response body")
	return string(b)
}

// fetch sends r and reads the answer.
func (t *trial) fetch(rt http.RoundTripper, r *http.Request) (status int, body string) {
	resp := t.respond(rt, r)
	return resp.StatusCode, t.read(resp)
}

// end closes what came back, if anything did.
func end(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
}
