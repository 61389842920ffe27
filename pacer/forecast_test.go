package pacer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestForecast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := &Pacer{Rate: Per(1, time.Second), Burst: 2, MaxWait: -1, rand: func() float64 { return 0.9 }}
		q := &Pacer{rand: p.rand}
		ask := func(at time.Duration, claims ...Claim) time.Duration {
			return Forecast(start.Add(at), claims...).Sub(start)
		}
		a := Claim{p, "a", 1}
		require.Zero(t, ask(0), "nothing is claimed")
		require.Zero(t, ask(0, Claim{}, a), "an unknown key is ready")
		require.Equal(t, 7*time.Second, ask(7*time.Second, a), "not before the instant asked")
		require.Equal(t, time.Duration(foreverInNano), ask(0, Claim{p, "a", 3}))
		require.Equal(t, time.Duration(foreverInNano), ask(0, a, Claim{p, "a", 2}), "a key named twice is the sum")
		require.Zero(t, p.Stats().Keys, "a question makes no entry")

		leave(t, p, start, "a", 2)
		require.Equal(t, time.Second, ask(0, a))
		require.Equal(t, 2*time.Second, ask(0, a, a))
		for range 3 {
			go func() { _, _ = p.Wait(t.Context(), "a", 1) }()
		}
		synctest.Wait()
		require.Equal(t, 4*time.Second, ask(0, a), "behind those who wait")
		require.Equal(t, 3, p.Stats().Waiting)
		q.Hold("b", start.Add(10*time.Second))
		require.Equal(t, 10*time.Second, ask(0, a, Claim{q, "b", 1}), "the later of the two, without jitter")
		require.Equal(t, 4*time.Second, leave(t, p, start, "a", 1), "a question takes nothing")
		require.Equal(t, 10900*ms, leave(t, q, start, "b", 1), "nor does it shorten the hold")
	})
}

// The jitter of a hold does not make a call late that fits its deadline.
func TestJitterIsCutForADeadline(t *testing.T) {
	for name, c := range map[string]struct {
		deadline, arrives time.Duration
		before            bool // the call waits when the hold comes
		want              time.Duration
	}{
		"after the jitter":        {11 * time.Second, 0, false, 10900 * ms},
		"within it":               {10500 * ms, 0, false, 10 * time.Second},
		"within it, came late":    {10500 * ms, 10200 * ms, false, 10200 * ms},
		"within it, waits before": {10500 * ms, 0, true, 10 * time.Second},
		"at the told instant":     {10 * time.Second, 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Pacer{Rate: Per(1, time.Second), rand: func() float64 { return 0.9 }}
				start := time.Now()
				if c.before {
					leave(t, p, start, "k", 1)
				} else {
					p.Hold("k", start.Add(10*time.Second))
				}
				time.Sleep(c.arrives)
				ctx, cancel := context.WithDeadline(t.Context(), start.Add(c.deadline))
				defer cancel()
				left, failed := time.Duration(0), error(nil)
				go func() {
					_, failed = p.Wait(ctx, "k", 1)
					left = time.Since(start)
				}()
				synctest.Wait()
				if c.before {
					p.Hold("k", start.Add(10*time.Second))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if c.want == 0 {
					require.ErrorIs(t, failed, context.DeadlineExceeded)
					require.Zero(t, left)
					require.Equal(t, int64(10900*ms), p.known("k").hold.end, "the others keep it")
					return
				}
				require.NoError(t, failed)
				require.Equal(t, c.want, left)
			})
		})
	}
}

// A later telling that the jitter covers is still a promise.
func TestJitterIsNotCutBelowALaterTelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{rand: func() float64 { return 0.9 }}
		start := time.Now()
		p.Hold("k", start.Add(10*time.Second))
		p.Hold("k", start.Add(10300*ms))
		ctx, cancel := context.WithDeadline(t.Context(), start.Add(10500*ms))
		defer cancel()
		_, err := p.Wait(ctx, "k", 1)
		require.NoError(t, err)
		require.Equal(t, 10300*ms, time.Since(start))
	})
}

// Nor does the jitter of a reset.
func TestJitterOfAResetIsCut(t *testing.T) {
	for _, left := range []float64{0, 1} {
		for _, deadline := range []time.Duration{10 * time.Second, 10500 * ms, 11 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				p := &Pacer{rand: func() float64 { return 0.9 }}
				start := time.Now()
				p.Observe("k", limited(200, limit("", 100, left, 10*time.Second)), time.Time{})
				require.Equal(t, start.Add(10*time.Second), Forecast(start, Claim{p, "k", 5}))
				ctx, cancel := context.WithDeadline(t.Context(), start.Add(deadline))
				defer cancel()
				_, err := p.Wait(ctx, "k", 5)
				switch deadline {
				case 10 * time.Second:
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Zero(t, time.Since(start))
				case 11 * time.Second:
					require.NoError(t, err)
					require.Equal(t, 10900*ms, time.Since(start))
				default:
					require.NoError(t, err)
					require.Equal(t, 10*time.Second, time.Since(start))
				}
			})
		}
	}
}
