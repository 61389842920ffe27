package retry

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *watchdog) occupied() (n int) {
	for i := range w.slots {
		if w.slots[i].Load() != nil {
			n++
		}
	}
	return n
}

// However an attempt ends, its slot is free.
func TestWatchdogKeepsNothing(t *testing.T) {
	ok := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	}
	for name, base := range map[string]baseFunc{
		"answer":  ok,
		"error":   func(*http.Request) (*http.Response, error) { return nil, context.Canceled },
		"timeout": func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
		"panic":   func(*http.Request) (*http.Response, error) { panic("base") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &Transport{Policy: &Policy{MaxAttempts: 1, AttemptTimeout: time.Minute}}
				tr.Base = baseFunc(func(r *http.Request) (*http.Response, error) {
					assert.Zero(t, tr.state.watch.occupied(), "nobody has asked")
					r.Context().Done()
					assert.Equal(t, 1, tr.state.watch.occupied())
					return base(r)
				})
				for range 3 {
					func() {
						defer func() { _ = recover() }()
						r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a/", nil)
						_, _ = tr.RoundTrip(r)
					}()
					assert.Zero(t, tr.state.watch.occupied())
				}
				time.Sleep(time.Hour)
				assert.EqualValues(t, unarmed, tr.state.watch.next.Load(), "nothing to watch, no timer")
			})
		})
	}
}

// One timer serves all attempts: it is armed for the nearest only.
func TestWatchdogArmsOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &Transport{Policy: &Policy{AttemptTimeout: 30 * time.Second}}
		tr.Base = baseFunc(func(r *http.Request) (*http.Response, error) {
			r.Context().Done()
			time.Sleep(time.Second)
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})
		for range 600 {
			r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a/", nil)
			_, err := tr.RoundTrip(r)
			assert.NoError(t, err)
		}
		assert.Less(t, tr.state.watch.round, uint64(50), "timers in ten minutes, of 600 attempts")
	})
}
