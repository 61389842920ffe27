package shed_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/shed"
)

// TestSubCallAfterASubCall: the context of a slot that was left is still that of
// the request around it.
func TestSubCallAfterASubCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, Queue: -1}
		var kept context.Context
		h := g.Handler(g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			slot, err := g.Enter(r.Context(), shed.Entry{})
			require.NoError(t, err)
			kept = slot.Context(r.Context())
			slot.Leave()
			again, err := g.Enter(kept, shed.Entry{})
			require.NoError(t, err, "its parent is still inside")
			again.Leave()
			release, err := g.Wait(kept)
			require.NoError(t, err)
			release()
		})))
		h.ServeHTTP(&answer{}, request("/"))
		assert.Zero(t, g.Stats().InFlight)
		other, err := g.Enter(t.Context(), shed.Entry{})
		require.NoError(t, err)
		_, err = g.Enter(kept, shed.Entry{})
		assert.Error(t, err, "all around it are over")
		other.Leave()
	})
}

// TestDoneOfASubCall says nothing about its parent.
func TestDoneOfASubCall(t *testing.T) {
	for _, served := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			outer := &shed.Gate{Limit: 1000}
			g := &shed.Gate{Adaptive: &shed.Adaptive{Min: 1, Initial: 20}}
			s := newServer(5, 100*time.Millisecond)
			inside := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				shed.Done(r.Context(), served)
			})
			h := outer.Handler(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				g.Handler(inside).ServeHTTP(w, r)
				if slot, err := g.Enter(r.Context(), shed.Entry{}); err == nil {
					shed.Done(slot.Context(r.Context()), served)
					slot.Leave()
				}
				s.ServeHTTP(w, r)
			})))
			s.run(h, 150, time.Minute, nil)
			l := s.run(h, 150, 20*time.Second, nil)
			assert.GreaterOrEqual(t, l.served.Load(), int64(50*20*90/100))
			assert.LessOrEqual(t, limit(g), 12)
			assert.GreaterOrEqual(t, limit(g), 4)
		})
	}
}
