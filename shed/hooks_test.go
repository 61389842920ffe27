package shed_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/shed"
)

func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told events
		note := func(e shed.Event) {
			assert.NotNil(t, e.Request)
			e.Request = nil
			told.note(e)
		}
		g := &shed.Gate{
			Limit: 1, Queue: 1, MaxWait: 50 * time.Millisecond, Tenant: byHeader("Tenant"),
			Hooks: &shed.Hooks{Admitted: note, Queued: note, Refused: note},
		}
		h := g.Handler(work(time.Second))
		all := []*call{send(h, "/", "Tenant", "a"), send(h, "/", "Tenant", "b"), send(h, "/", "Tenant", "b")}
		await(all...)
		got := told.all
		require.Len(t, got, 4)
		for i := range got {
			if got[i].Reason != "" {
				assert.GreaterOrEqual(t, got[i].RetryAfter, time.Second)
				got[i].RetryAfter = 0
			}
		}
		assert.Equal(t, []shed.Event{
			{Tenant: "a", Attempt: 1},
			{Tenant: "b", Attempt: 1},
			{Tenant: "b", Attempt: 1, Reason: shed.Full, Status: 503},
			{Tenant: "b", Attempt: 1, Reason: shed.Waited, Status: 503, Waited: 50 * time.Millisecond},
		}, got)
	})
}

// A hook that panics ends its request, and costs nobody a slot.
func TestHookPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		angry := false
		fails := func(shed.Event) {
			if angry {
				panic("hook")
			}
		}
		for _, hooks := range []*shed.Hooks{{Admitted: fails}, {Queued: fails}, {Refused: fails}} {
			g := &shed.Gate{Limit: 1, Queue: 1, MaxWait: -1, Hooks: hooks}
			h := g.Handler(work(time.Second))
			for range 5 {
				angry = true
				await(startAll(h, 4, "/")...)
				angry = false
				time.Sleep(10 * time.Second)
				require.Zero(t, g.Stats().InFlight+g.Stats().Waiting)
				all := startAll(h, 2, "/")
				await(all...)
				require.Equal(t, 2, served(all...))
			}
		}
	})
}

// So do the functions of the fields.
func TestFunctionPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(r *http.Request) bool { panic("field") }
		g := &shed.Gate{Limit: 1, TrustPriority: fails}
		await(startAll(g.Handler(work(0)), 5, "/")...)
		assert.Equal(t, shed.Stats{Limit: 1, Refused: map[shed.Reason]int64{}}, g.Stats())
	})
}
