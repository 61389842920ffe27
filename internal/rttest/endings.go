package rttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// C10: "RoundTrip must be safe for concurrent use by multiple goroutines."
// Under -race this finds races; without, answers that went to another caller.
func manyCallers(t *trial) {
	var mu sync.Mutex
	tries := make(map[string]int)
	_, rt := t.serve(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		id := r.Header.Get("X-Id")
		mu.Lock()
		tries[id]++
		n := tries[id]
		mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		if n == 1 && strings.HasSuffix(id, "/0") && t.retrying() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s", id, b)
	})
	var wg sync.WaitGroup
	for caller := range 6 {
		wg.Go(func() {
			t.in(fmt.Sprintf("caller %d", caller), func(t *trial) {
				for call := range 3 {
					id := fmt.Sprintf("%d/%d", caller, call)
					r := t.put(&uploads{data: "body of " + id})
					r.Header.Set("X-Id", id)
					status, body := t.fetch(rt, r)
					assert.Equal(t, 200, status, id)
					assert.Equal(t, id+" body of "+id, body)
				}
			})
		})
	}
	wg.Wait()
}

// C17: the context governs "reading the response headers and body"
// (NewRequestWithContext), so what is below must not be given another's.
func cancelEndsReading(t *trial) {
	calls := 0
	_, rt := t.serve(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 && t.retrying() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	for _, name := range []string{"after a retry", "first attempt"} {
		t.in(name, func(t *trial) {
			ctx, cancel := t.context()
			resp := t.respond(rt, t.get().WithContext(ctx))
			start := time.Now()
			time.AfterFunc(time.Minute, func() { cancel(nil) })
			// Whoever lost the context would wait for ever.
			stop := time.AfterFunc(time.Hour, func() { _ = resp.Body.Close() })
			defer stop.Stop()
			b, err := io.ReadAll(resp.Body)
			assert.Equal(t, "first", string(b))
			assert.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, time.Minute, time.Since(start), "the body ended")
		})
	}
}

// C18: whoever waits stops when the caller does, and says so in a way that both
// context.Canceled and the caller's own cause are found.
func cancelEndsWaits(t *trial) {
	cause := errors.New("the user left")
	call := func(name string, wrap func(http.RoundTripper) http.RoundTripper, st step, calls int) {
		t.in(name, func(t *trial) {
			base := newScript(st)
			ctx, cancel := t.context()
			start := time.Now()
			time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
			resp, err := wrap(base).RoundTrip(t.get().WithContext(ctx))
			end(resp)
			require.Error(t, err)
			assert.Equal(t, 50*time.Millisecond, time.Since(start), "cancelled after 50ms, returned")
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, cause)
			assert.Equal(t, calls, base.calls(), "calls of the base")
			assert.Zero(t, base.unclosed(), "responses left open")
		})
	}
	if t.retrying() {
		call("told wait", t.wrap, answer(503, "busy", "Retry-After", "60"), 1)
		call("told wait of a 429", t.wrap, answer(429, "slow down", "Retry-After", "60"), 1)
	}
	for _, v := range t.waiting {
		call(v.name, v.wrap, answer(200, "ok"), 0)
	}
}

// C19: http.Client.Timeout is a deadline in the context, and callers ask the
// error whether it was one.
func timeoutReports(t *trial) {
	hang := func(r *http.Request) (*http.Response, error) {
		select {
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		case <-t.root.Done(): // whoever lost the request's context
			return nil, errGiveUp
		}
	}
	one := func(name string, st ...step) {
		t.in(name, func(t *trial) {
			client := &http.Client{Transport: t.wrap(newScript(st...)), Timeout: 20 * time.Second}
			start := time.Now()
			resp, err := client.Do(t.get())
			end(resp)
			require.Error(t, err)
			assert.Equal(t, 20*time.Second, time.Since(start), "returned")
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.True(t, os.IsTimeout(err), "os.IsTimeout(%v)", err)

			// The client covers up for what it finds below, if its own timer was first.
			ctx, cancel := context.WithTimeout(t.root, 20*time.Second)
			defer cancel()
			resp, err = t.wrap(newScript(st...)).RoundTrip(t.get().WithContext(ctx))
			end(resp)
			require.Error(t, err)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.True(t, os.IsTimeout(err), "os.IsTimeout(%v)", err)
		})
	}
	one("first attempt hangs", step{do: hang})
	if t.retrying() {
		one("second attempt hangs", busy(), step{do: hang})
	}
	t.in("the body hangs", func(t *trial) {
		_, rt := t.serve(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		client := &http.Client{Transport: rt, Timeout: 20 * time.Second}
		resp, err := client.Do(t.get())
		require.NoError(t, err)
		defer end(resp)
		_, err = io.ReadAll(resp.Body)
		assert.True(t, os.IsTimeout(err), "os.IsTimeout(%v)", err)
	})
}

// C20: when the caller has closed the response, the call is over: no goroutine
// of it runs, no context derived for it waits to be cancelled, and the
// connection is idle or closed.
func nothingOutlives(t *trial) {
	outcomes := map[string][]step{
		"200":        {answer(200, "ok")},
		"503, 200":   {busy(), answer(200, "ok")},
		"503 always": {busy()},
		"302":        {answer(302, "moved", "Location", "/elsewhere")},
		"dial fails": {fails(refused())},
	}
	for name, st := range outcomes {
		for _, how := range []string{"read", "closed unread"} {
			t.in(name+", "+how, func(t *trial) {
				label := strings.ReplaceAll(fmt.Sprintf("%p %s %s", t.mu, name, how), `"`, "")
				pprof.Do(context.Background(), pprof.Labels("rttest", label), func(context.Context) {
					ctx, cancel := newForeignContext(t.root)
					t.bubble.Cleanup(cancel)
					resp, err := t.wrap(newScript(st...)).RoundTrip(t.put(&uploads{}).WithContext(ctx))
					if err == nil && how == "read" {
						_, _ = io.Copy(io.Discard, resp.Body)
					}
					end(resp)
				})
				synctest.Wait()
				assert.Zero(t, labelled(label), "goroutines that outlive the response")
			})
		}
	}
	t.in("connections", func(t *trial) {
		calls := 0
		l, rt := t.serve(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls%2 == 1 && t.retrying() {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = io.WriteString(w, strings.Repeat("much ", 1<<20))
		})
		for range 3 {
			end(t.respond(rt, t.get())) // unread: such a connection cannot be used again
		}
		synctest.Wait()
		assert.Zero(t, l.Open(), "connections of closed responses")
	})
}

// foreignContext is not of package context's make, so that package context must
// start a goroutine for whatever is derived from it, until that is cancelled:
// a forgotten cancel shows.
type foreignContext struct {
	context.Context
	done chan struct{}
}

func newForeignContext(parent context.Context) (ctx context.Context, cancel func()) {
	c := foreignContext{parent, make(chan struct{})}
	return c, sync.OnceFunc(func() { close(c.done) })
}

func (c foreignContext) Done() <-chan struct{} { return c.done }

func (c foreignContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// labelled counts the goroutines that were started under a profiler label.
func labelled(label string) (n int) {
	var profile strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	for record := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(record, fmt.Sprintf(`"rttest":%q`, label)) {
			var count int
			_, _ = fmt.Sscanf(record, "%d @", &count)
			n += max(count, 1)
		}
	}
	return n
}

// C21: http.Client.CloseIdleConnections asks its transport for the method and
// does nothing without. It is the owner's to call: on one host's failure it
// would throw away every other host's connections.
func closeIdleIsForwarded(t *trial) {
	base := newScript(busy(), fails(refused()), answer(200, "ok"), busy())
	rt := t.wrap(base)
	for range 4 {
		resp, _ := rt.RoundTrip(t.get())
		end(resp)
	}
	ctx, cancel := t.context()
	time.AfterFunc(time.Millisecond, func() { cancel(nil) })
	resp, _ := rt.RoundTrip(t.get().WithContext(ctx))
	end(resp)
	assert.Zero(t, base.idle.Load(), "calls of CloseIdleConnections that nobody asked for")
	(&http.Client{Transport: rt}).CloseIdleConnections()
	assert.EqualValues(t, 1, base.idle.Load(), "calls of CloseIdleConnections that reached the base")
}

// C23: a response that the caller never sees is the transport's to read, so
// that its connection can be used again, and to close. But not at any price.
func droppedAreClosed(t *trial) {
	if !t.retrying() {
		base := newScript(busy())
		t.fetch(t.wrap(base), t.get())
		assert.Zero(t, base.unclosed())
		return
	}
	t.in("small ones", func(t *trial) {
		calls := 0
		l, rt := t.serve(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls <= 2 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, strings.Repeat("x", 2000))
			}
		})
		status, _ := t.fetch(rt, t.get())
		assert.Equal(t, 200, status)
		assert.Equal(t, 3, calls, "attempts")
		assert.Equal(t, 1, l.Dialed(), "connections")
	})
	for name, st := range map[string][]step{
		"503, 200":   {busy(), answer(200, "ok")},
		"503 always": {busy()},
		"503, fails": {busy(), fails(refused())},
	} {
		t.in(name, func(t *trial) {
			base := newScript(st...)
			resp, err := t.wrap(base).RoundTrip(t.get())
			assert.Greater(t, base.calls(), 1, "attempts")
			assert.Zero(t, base.unclosed(), "responses left open")
			if err != nil {
				assert.Positive(t, base.last().closes.Load(), "closes of the response before the error")
			}
			end(resp)
		})
	}
	t.in("endless ones", func(t *trial) {
		var at []time.Duration
		start := time.Now()
		_, rt := t.serve(func(w http.ResponseWriter, r *http.Request) {
			if at = append(at, time.Since(start)); len(at) > 1 {
				return
			}
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			for r.Context().Err() == nil { // a byte a minute
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Minute)
			}
		})
		t.fetch(rt, t.get())
		require.Len(t, at, 2, "attempts")
		assert.Less(t, at[1], 30*time.Second, "the second attempt came after")
	})
	t.in("big ones", func(t *trial) {
		big := answer(503, strings.Repeat("x", 16<<20), "Retry-After", "1")
		base := newScript(big, answer(200, "ok"))
		t.fetch(t.wrap(base), t.get())
		base.mu.Lock()
		defer base.mu.Unlock()
		assert.Less(t, base.gave[0].read.Load(), int64(4<<20), "bytes read of a response nobody sees")
	})
}

// C26: a panic in the base is the caller's to see, as it was, and whatever the
// call held is free again: a lock, a place in flight, a probe's slot.
func panicHoldsNothing(t *trial) {
	type shock struct{ why string }
	want := &shock{"the base has a bug"}
	one := func(name string, pause time.Duration, before ...step) {
		t.in(name, func(t *trial) {
			steps := before
			for range 3 {
				steps = append(steps, step{do: func(*http.Request) (*http.Response, error) { panic(want) }})
			}
			base := newScript(append(steps, answer(200, "ok"))...)
			rt := t.wrap(base)
			panics := 0
			for range 20 {
				if base.calls() >= len(steps) {
					break
				}
				func() {
					defer func() {
						if p := recover(); p != nil {
							panics++
							assert.Equal(t, any(want), p, "the panic")
						}
					}()
					resp, _ := rt.RoundTrip(t.get())
					end(resp)
				}()
				time.Sleep(pause)
			}
			assert.Equal(t, 3, panics, "panics that came through")
			start := time.Now()
			status, _ := t.fetch(rt, t.get())
			assert.Equal(t, 200, status)
			assert.Less(t, time.Since(start), time.Minute, "time of the call after the panics")
		})
	}
	one("first attempt", 0)
	one("second attempt", 0, busy())
	down := make([]step, 12)
	for i := range down {
		down[i] = fails(refused())
	}
	one("while the host is being tried again", time.Hour, down...)
}
