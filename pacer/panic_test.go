package pacer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
)

// A hook that panics, where somebody recovers, keeps no place.
func TestPanicInHookKeepsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Second), MaxInFlight: 1}
		q := &Pacer{MaxInFlight: 1}
		start := time.Now()
		ctx := observe.With(t.Context(), &observe.Hooks{Paced: func(context.Context, observe.Paced) { panic("hook") }})
		wait := func() { _, _ = p.Wait(ctx, "k", 1) }
		require.PanicsWithValue(t, "hook", wait)
		require.Equal(t, time.Second, leave(t, p, start, "k", 1), "after a grant at once")
		require.PanicsWithValue(t, "hook", wait)
		require.Equal(t, 3*time.Second, leave(t, p, start, "k", 1), "after a wait")
		for range 2 { // after a wait, and at once
			require.PanicsWithValue(t, "hook", func() { _, _ = WaitAll(ctx, Claim{p, "k", 1}, Claim{q, "q", 1}) })
			require.Zero(t, p.known("k").inFlight)
			require.Zero(t, q.known("q").inFlight)
			time.Sleep(time.Second)
		}
	})
}

// reserver is a store made of a function.
type reserver func(context.Context) (Grant, error)

func (f reserver) Reserve(ctx context.Context, _ string, _ Pace, _ int64, _ time.Duration) (Grant, error) {
	return f(ctx)
}
func (reserver) Hold(context.Context, string, time.Duration) error { return nil }

func TestPanicInStoreLeavesNobodyInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		p := &Pacer{Rate: Per(1, time.Second), Shared: reserver(func(context.Context) (Grant, error) {
			if broken {
				panic("store")
			}
			return Grant{}, nil
		})}
		require.PanicsWithValue(t, "store", func() { _, _ = p.Wait(t.Context(), "k", 1) })
		require.Zero(t, p.Stats().Waiting)
		broken = false
		require.Zero(t, leave(t, p, time.Now(), "k", 1))
	})
}

// A store that hangs has failed once the call may wait no longer.
func TestHangingStoreDoesNotOutlastMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Second), MaxWait: 3 * time.Second, Shared: reserver(func(ctx context.Context) (Grant, error) {
			<-ctx.Done()
			return Grant{}, ctx.Err()
		})}
		start := time.Now()
		behind := make(chan error, 1)
		go func() {
			time.Sleep(time.Second)
			_, err := p.Wait(context.Background(), "k", 1)
			behind <- err
		}()
		_, err := p.Wait(context.Background(), "k", 1)
		require.NoError(t, err, "this process keeps the pace")
		require.Equal(t, 3*time.Second, time.Since(start))
		require.NoError(t, <-behind)
		require.Equal(t, 4*time.Second, time.Since(start))

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		time.Sleep(time.Millisecond) // the store is asked again
		_, err = p.Wait(ctx, "k", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(start), 5*time.Second+ms)
	})
}
