package shed_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/shed"
)

func TestWaitSlowsAProducerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 2, Queue: -1, MaxWait: time.Millisecond}
		began := time.Now()
		var all sync.WaitGroup
		for range 10 { // a second each, two at once
			release, err := g.Wait(t.Context())
			require.NoError(t, err)
			all.Go(func() {
				defer release()
				time.Sleep(time.Second)
			})
		}
		assert.Equal(t, 4*time.Second, time.Since(began))
		all.Wait()
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Zero(t, g.Stats().InFlight)
	})
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1}
		release, err := g.Wait(t.Context())
		require.NoError(t, err)

		why := errors.New("no more")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		began := time.Now()
		_, err = g.Wait(ctx)
		assert.ErrorIs(t, err, why)
		assert.ErrorContains(t, err, "shed: ")
		assert.Equal(t, time.Minute, time.Since(began))
		_, err = g.Wait(ctx)
		assert.ErrorIs(t, err, why, "it has ended before")

		release()
		release() // counts for nothing
		one, err := g.Wait(t.Context())
		require.NoError(t, err)
		release() // and still does not
		assert.Equal(t, 1, g.Stats().InFlight)
		one()
		assert.Zero(t, g.Stats().InFlight)
		_, err = g.Wait(ctx)
		assert.Error(t, err, "though there is room")
	})
}

func TestEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, Queue: 1, MaxWait: time.Second}
		slot, err := g.Enter(t.Context(), shed.Entry{})
		require.NoError(t, err)

		began := time.Now()
		_, err = g.Enter(t.Context(), shed.Entry{})
		var refusal *shed.Refusal
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, shed.Waited, refusal.Reason)
		assert.GreaterOrEqual(t, refusal.RetryAfter, time.Second)
		assert.Equal(t, time.Second, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err = g.Enter(ctx, shed.Entry{})
		require.ErrorAs(t, err, &refusal)
		assert.Contains(t, []shed.Reason{shed.Gone, shed.Waited}, refusal.Reason, "both at the same instant")
		time.Sleep(time.Millisecond)
		_, err = g.Enter(ctx, shed.Entry{})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = g.Enter(t.Context(), shed.Entry{Timeout: -1})
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, shed.WouldMiss, refusal.Reason)

		slot.Leave()
		slot.Leave()
		g = &shed.Gate{Limit: 2}
		slot, err = g.Enter(t.Context(), shed.Entry{})
		require.NoError(t, err)
		slot.Leave()
		next, err := g.Enter(t.Context(), shed.Entry{})
		require.NoError(t, err)
		slot.Leave() // of one who is no longer there
		assert.Equal(t, 1, g.Stats().InFlight)
		next.Leave()
		shed.Slot{}.Leave()
		assert.Equal(t, t.Context(), shed.Slot{}.Context(t.Context()))
	})
}

func TestSlotContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := &shed.Gate{Limit: 1}, &shed.Gate{Limit: 1}
		one, err := outer.Enter(t.Context(), shed.Entry{Class: shed.Sheddable})
		require.NoError(t, err)
		ctx := one.Context(t.Context())
		two, err := inner.Enter(ctx, shed.Entry{Class: shed.CriticalPlus})
		require.NoError(t, err)
		both := two.Context(ctx)

		class, ok := shed.PriorityFrom(both)
		assert.True(t, ok)
		assert.Equal(t, shed.CriticalPlus, class)
		class, _ = shed.PriorityFrom(ctx)
		assert.Equal(t, shed.Sheddable, class)
		_, ok = shed.PriorityFrom(t.Context())
		assert.False(t, ok)

		for _, g := range []*shed.Gate{outer, inner} { // each is full, and knows its own
			sub, err := g.Enter(both, shed.Entry{})
			require.NoError(t, err)
			sub.Leave()
			assert.Equal(t, 1, g.Stats().InFlight)
		}
		_, err = inner.Enter(ctx, shed.Entry{})
		assert.Error(t, err, "that context knows nothing of the inner slot")

		two.Leave()
		other, err := inner.Enter(t.Context(), shed.Entry{})
		require.NoError(t, err)
		_, err = inner.Enter(both, shed.Entry{})
		assert.Error(t, err, "the slot is another's by now")
		shed.Done(both, true)
		other.Leave()
		one.Leave()
	})
}

func TestClassOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Priority: func(*http.Request) shed.Class { return shed.SheddablePlus }}
		var got shed.Class
		h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, _ = shed.PriorityFrom(r.Context()) }))
		await(send(h, "/"))
		assert.Equal(t, shed.SheddablePlus, got)
		assert.Equal(t, "sheddable-plus", got.String())
	})
}

// Who is let in at the instant in which it leaves takes no slot.
func TestLeavesAsItsTurnComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := func() {}
		g := &shed.Gate{Limit: 1, MaxWait: -1, Hooks: &shed.Hooks{Queued: func(shed.Event) { leave() }}}
		for range 50 {
			slot, err := g.Enter(t.Context(), shed.Entry{})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			leave = func() {
				slot.Leave()
				cancel()
			}
			_, err = g.Enter(ctx, shed.Entry{})
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, g.Stats().InFlight+g.Stats().Waiting)

			slot, err = g.Enter(t.Context(), shed.Entry{})
			require.NoError(t, err)
			ctx, cancel = context.WithCancel(t.Context())
			leave = func() {}
			time.AfterFunc(time.Second, func() {
				cancel()
				slot.Leave()
			})
			_, err = g.Enter(ctx, shed.Entry{})
			require.ErrorIs(t, err, context.Canceled)
			synctest.Wait() // the slot that was held comes back, too
			require.Zero(t, g.Stats().InFlight+g.Stats().Waiting)
		}
	})
}

// A visit that is used again has nothing of the one before.
func TestAfterAProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 2, Queue: -1}
		one, err := g.Wait(t.Context())
		require.NoError(t, err)
		defer one()
		two, err := g.Wait(t.Context())
		require.NoError(t, err)
		two()
		g.SetLimit(1)
		for range 3 {
			began := time.Now()
			_, err = g.Enter(t.Context(), shed.Entry{})
			var refusal *shed.Refusal
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, shed.Full, refusal.Reason)
			assert.Zero(t, time.Since(began))
		}
	})
}

// Who is inside when the house is shut may end what it has begun.
func TestSubCallOfAShutGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1}
		slot, err := g.Enter(t.Context(), shed.Entry{})
		require.NoError(t, err)
		defer slot.Leave()
		g.SetLimit(0)
		sub, err := g.Enter(slot.Context(t.Context()), shed.Entry{})
		require.NoError(t, err)
		sub.Leave()
	})
}

func TestDeadlineOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1}
		for range 20 {
			slot, err := g.Enter(t.Context(), shed.Entry{})
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
			slot.Leave()
		}
		slot, err := g.Enter(t.Context(), shed.Entry{})
		require.NoError(t, err)
		defer slot.Leave()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err = g.Enter(ctx, shed.Entry{Timeout: time.Hour})
		var refusal *shed.Refusal
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, shed.WouldMiss, refusal.Reason)
		assert.Zero(t, time.Since(began))
	})
}
