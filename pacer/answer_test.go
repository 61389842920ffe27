package pacer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/headerparse"
)

func unjittered(p *Pacer) *Pacer {
	p.rand = func() float64 { return 0 }
	return p
}

func TestHoldReachesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(&Pacer{Rate: Per(10, time.Second), Burst: 5})
		start := time.Now()
		leave(t, p, start, "k", 5)
		d := &departures{start: start}
		for i := range 3 {
			d.call(t, t.Context(), fmt.Sprint(i), Claim{p, "k", 1})
		}
		time.Sleep(150 * ms)
		p.Hold("k", start.Add(3*time.Second))
		p.Hold("k", start.Add(2*time.Second)) // never shorter
		p.Hold("k", start)
		d.call(t, t.Context(), "new", Claim{p, "k", 1})
		d.call(t, t.Context(), "other", Claim{p, "j", 1})
		d.Wait()
		// The bucket refilled long before, but only one unit is left of it.
		assert.Equal(t, []string{"0 100ms", "other 150ms", "1 3s", "2 3.1s", "new 3.2s"}, d.got)
		assert.Equal(t, 3300*ms, leave(t, p, start, "k", 1))
	})
}

func TestHoldRefusesWhoCannotWaitForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Second), MaxWait: time.Minute}
		start := time.Now()
		leave(t, p, start, "k", 1)
		short, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var wg sync.WaitGroup
		for _, ctx := range []context.Context{short, t.Context()} {
			wg.Go(func() {
				_, err := p.Wait(ctx, "k", 1)
				var late *WaitError
				assert.ErrorAs(t, err, &late)
				assert.GreaterOrEqual(t, late.Wait, 2*time.Minute)
				assert.Equal(t, 500*ms, time.Since(start))
			})
		}
		time.Sleep(500 * ms)
		p.Hold("k", time.Now().Add(2*time.Minute))
		wg.Wait()
		_, err := p.Wait(t.Context(), "k", 1)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Those who waited for the end of a hold do not leave all at once, without any
// rate either.
func TestHoldIsNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{rand: func() float64 { return 0.5 }}
		start := time.Now()
		p.Hold("k", start.Add(10*time.Second))
		d := &departures{start: start}
		for i := range 4 {
			d.call(t, t.Context(), fmt.Sprint(i), Claim{p, "k", 1})
		}
		d.Wait()
		assert.Equal(t, []string{"0 10.5s", "1 10.75s", "2 11s", "3 11.25s"}, d.got)
		for range 3 {
			assert.Equal(t, 11250*ms, leave(t, p, start, "k", 1))
		}
		assert.True(t, p.last.Load().free.Load(), "and then nothing paces the key")
	})
}

func TestMaxHoldLetsOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(&Pacer{MaxHold: time.Minute, MaxWait: -1})
		start := time.Now()
		d := &departures{start: start}
		p.Observe("k", told(429, 10*time.Minute), start)
		for i := range 4 {
			d.call(t, t.Context(), fmt.Sprint(i), Claim{p, "k", 1})
		}
		time.Sleep(90 * time.Second)
		p.Observe("k", told(503, 9*time.Minute), time.Now()) // the one that tried: hold on
		time.Sleep(90 * time.Second)
		p.Answered("k") // the next: it is over
		d.Wait()
		// Two are left, and leave within a tenth of a hold.
		require.Len(t, d.got, 4)
		assert.Equal(t, []string{"0 1m0s", "1 2m30s", "2 3m0s"}, d.got[:3])
		assert.LessOrEqual(t, time.Since(start), 3*time.Minute+30*time.Second)
	})
}

func told(status int, wait time.Duration) headerparse.Signal {
	return headerparse.Signal{Status: status, Wait: wait, Told: true, Source: "Retry-After", By: -1}
}

func limited(status int, limits ...headerparse.Limit) headerparse.Signal {
	return headerparse.Signal{Status: status, By: -1, Limits: limits}
}

func limit(name string, quota, remaining float64, reset time.Duration) headerparse.Limit {
	return headerparse.Limit{Name: name, Quota: quota, Remaining: remaining, Reset: reset, Window: headerparse.Unknown}
}

func TestWhatHolds(t *testing.T) {
	for _, c := range []struct {
		name string
		s    headerparse.Signal
		want time.Duration
	}{
		{"429 told", told(429, 7*time.Second), 7 * time.Second},
		{"503 told", told(503, 7*time.Second), 7 * time.Second},
		{"403 told", told(403, 7*time.Second), 7 * time.Second},
		{"301 told", told(301, 7*time.Second), 0},
		{"200 told", told(200, 7*time.Second), 0},
		{"500 told", told(500, 7*time.Second), 0},
		{"403 alone", headerparse.Signal{Status: 403}, 0},
		{"200 spent", limited(200, limit("", 10, 0, 7*time.Second)), 7 * time.Second},
		{"500 spent", limited(500, limit("", 10, 0, 7*time.Second)), 7 * time.Second},
		{"spent, quota unknown", limited(200, limit("", headerparse.Unknown, 0, 7*time.Second)), 7 * time.Second},
		{"the longest of the spent", limited(200, limit("a", 10, 0, 2*time.Second), limit("b", 10, 0, 7*time.Second), limit("c", 10, 9, time.Minute)), 7 * time.Second},
		{"429 spent", limited(429, limit("", 10, 0, 7*time.Second)), 7 * time.Second},
		{"429 told less than the reset", headerparse.Signal{Status: 429, Told: true, Wait: 2 * time.Second, Limits: []headerparse.Limit{limit("", 10, 0, 7*time.Second)}}, 2 * time.Second},
		{"spent, reset unknown", limited(200, limit("", 10, 0, headerparse.Unknown)), 0},
		{"spent, reset past", limited(200, limit("", 10, 0, 0)), 0},
		{"enough left", limited(200, limit("", 10, 2, 7*time.Second)), 0},
		{"remaining unknown", limited(200, limit("", 10, headerparse.Unknown, 7*time.Second)), 0},
		{"places in flight", limited(200, headerparse.Limit{Unit: "concurrent-requests", Quota: 10, Remaining: 0, Reset: time.Minute}), 0},
		{"forever", told(429, 1<<62), time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := unjittered(&Pacer{MaxWait: -1})
				start := time.Now()
				p.Observe("k", c.s, start)
				assert.Equal(t, c.want, leave(t, p, start, "k", 1))
				zero := unjittered(&Pacer{MaxWait: -1})
				leave(t, zero, start, "k", 1)
				at := time.Now()
				zero.Observe("k", c.s, time.Time{})
				assert.Equal(t, c.want, leave(t, zero, at, "k", 1), "no instant: just now")
			})
		})
	}
}

// The wait runs from the receipt, not from when we get to hear of it.
func TestToldWaitRunsFromReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(new(Pacer))
		start := time.Now()
		time.Sleep(time.Second)
		p.Observe("k", told(429, 3*time.Second), start)
		assert.Equal(t, 3*time.Second, leave(t, p, start, "k", 1))
		time.Sleep(10 * time.Second)
		p.Observe("k", told(429, 3*time.Second), start)
		assert.Equal(t, 13*time.Second, leave(t, p, start, "k", 1))
	})
}

func TestSpreadsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(&Pacer{MaxWait: -1})
		start := time.Now()
		in := func(d time.Duration) time.Duration { return d - time.Since(start) }
		leave(t, p, start, "k", 1)
		p.Observe("k", limited(200, limit("", 100, 5, 10*time.Second)), time.Now())
		var got []time.Duration
		remaining := 5.0
		for range 6 {
			got = append(got, leave(t, p, start, "k", 1))
			remaining = max(0, remaining-1)
			p.Observe("k", limited(200, limit("", 100, remaining, in(10*time.Second).Round(time.Second))), time.Now())
		}
		assert.Equal(t, "[0s 2s 4s 6s 8s 10s]", fmt.Sprint(got))
	})
}

func TestSpreadSubtractsWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(&Pacer{MaxWait: -1})
		start := time.Now()
		for range 4 {
			leave(t, p, start, "k", 2)
		}
		// One answered, three calls of two units out, and 10 left: 4 to deal out.
		p.Observe("k", limited(200, limit("", 200, 10, 8*time.Second)), time.Now())
		assert.Equal(t, time.Duration(0), leave(t, p, start, "k", 2))
		assert.Equal(t, 4*time.Second, leave(t, p, start, "k", 2))
		assert.Equal(t, 8*time.Second, leave(t, p, start, "k", 2))
	})
}

// An answer that does not tell the limit has used it all the same.
func TestSilentAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(&Pacer{MaxWait: -1})
		start := time.Now()
		leave(t, p, start, "k", 1)
		p.Observe("k", limited(200, limit("", 100, 2, 10*time.Second)), start)
		var got []time.Duration
		for range 3 {
			got = append(got, leave(t, p, start, "k", 1))
			p.Answered("k")
		}
		assert.Equal(t, "[0s 5s 10s]", fmt.Sprint(got))
	})
}

func TestRemainingOnlyFallsUntilTheReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(&Pacer{MaxWait: -1, SpreadBelow: 1})
		start := time.Now()
		say := func(remaining float64, reset time.Duration) {
			p.Observe("k", limited(200, limit("", 10, remaining, reset)), time.Now())
		}
		leave(t, p, start, "k", 1)
		leave(t, p, start, "k", 1)
		say(2, 10*time.Second) // of the second call, overtaking the first...
		say(3, 11*time.Second) // ...whose answer is old
		assert.Equal(t, int64(2), p.last.Load().spread.left)
		say(9, 20*time.Second)
		assert.Equal(t, int64(9), p.last.Load().spread.left, "another reset")
		say(4, 5*time.Second)
		time.Sleep(19 * time.Second)
		say(5, time.Second)
		assert.Equal(t, int64(4), p.last.Load().spread.left)
		time.Sleep(time.Second)
		say(8, 10*time.Second)
		assert.Equal(t, int64(8), p.last.Load().spread.left, "the reset has passed")
		off := unjittered(&Pacer{SpreadBelow: -1})
		off.Observe("k", limited(200, limit("", 10, 1, time.Minute)), time.Now())
		leave(t, off, start, "k", 1)
		assert.Equal(t, 20*time.Second, leave(t, off, start, "k", 1))
	})
}

// A call whose answer never comes is not out for ever.
func TestLostCallsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(&Pacer{MaxWait: -1})
		start := time.Now()
		for range 6 {
			leave(t, p, start, "k", 1)
		}
		p.Observe("k", limited(200, limit("", 100, 5, time.Hour)), start)
		at := leave(t, p, start, "k", 1)
		assert.GreaterOrEqual(t, at, time.Duration(lostAfter), "all that is left may be on its way")
		assert.LessOrEqual(t, at, time.Minute+time.Second)
	})
}

func TestLearnsFromThrottlesWithoutNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(Pacer)
		start := time.Now()
		for i := range 200 { // 50 a second
			leave(t, p, start, "k", 1)
			time.Sleep(20 * ms)
			p.Observe("k", headerparse.Signal{Status: 200}, time.Time{})
			if i > 100 {
				require.True(t, p.last.Load().free.Load())
			}
		}
		p.Observe("k", headerparse.Signal{Status: 429}, time.Now())
		l := p.last.Load()
		require.True(t, l.learnt.on())
		assert.InDelta(t, 50, l.learnt.learner.Rate(), 25, "the rate was measured before")
		start = time.Now()
		leave(t, p, start, "k", 1)
		assert.InDelta(t, 1/l.learnt.learner.Rate(), time.Since(start).Seconds(), 1e-3, "it begins empty")
		for range 30 {
			leave(t, p, start, "k", 1)
			p.Answered("k")
		}
		assert.Greater(t, time.Since(start), 300*ms)
		assert.Less(t, time.Since(start), 2*time.Second)
		assert.Zero(t, leave(t, p, time.Now(), "other", 1))
		for range 1000 { // comes back by itself
			time.Sleep(500 * ms)
			p.Observe("k", headerparse.Signal{Status: 200}, time.Now())
		}
		assert.True(t, p.known("k").free.Load())
	})
}

func TestSetRateReachesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Minute), Burst: 3}
		start := time.Now()
		leave(t, p, start, "k", 3)
		d := &departures{start: start}
		for i := range 3 {
			d.call(t, t.Context(), fmt.Sprint(i), Claim{p, "k", 1})
		}
		time.Sleep(30 * time.Second)
		p.SetRate(Per(10, time.Second), 5)
		d.Wait()
		assert.Equal(t, []string{"0 30.05s", "1 30.15s", "2 30.25s"}, d.got)
		p.SetRate(Rate{}, 0)
		assert.Equal(t, 30250*ms, leave(t, p, start, "k", 100))
		p.SetRate(Per(1, time.Second), 2)
		_, err := p.Wait(t.Context(), "k", 3)
		assert.ErrorIs(t, err, ErrTooLarge)

		large := &Pacer{Rate: Per(1, time.Second), Burst: 5}
		leave(t, large, start, "k", 5)
		got := make(chan error, 2)
		for _, n := range []int64{5, 1} {
			go func() { _, err := large.Wait(t.Context(), "k", n); got <- err }()
			synctest.Wait()
		}
		large.SetRate(Per(1, 200*time.Second), 2)
		require.ErrorIs(t, <-got, ErrTooLarge)
		start = time.Now()
		require.NoError(t, <-got)
		require.Equal(t, 200*time.Second, time.Since(start))
		go func() { _, err := large.Wait(t.Context(), "k", 1); got <- err }()
		synctest.Wait()
		large.SetRate(Per(1, time.Hour), 2)
		require.ErrorIs(t, <-got, context.DeadlineExceeded)

		leaky := &Pacer{Rate: Per(1, time.Minute), Shape: LeakyBucket}
		start = time.Now()
		leave(t, leaky, start, "k", 2)
		time.AfterFunc(time.Second, func() { leaky.SetRate(Per(1, time.Second), 0) })
		assert.Equal(t, 2*time.Second, leave(t, leaky, start, "k", 1))
	})
}
