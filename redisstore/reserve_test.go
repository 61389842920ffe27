package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

const ms = time.Millisecond

func perSecond(count, burst int64) pacer.Pace {
	return pacer.Pace{Rate: pacer.Per(count, time.Second), Burst: burst}
}

// reserve returns the wait, or -1 - wait if that was refused.
func reserve(t *testing.T, s *Store, p pacer.Pace, n int64, most time.Duration) (time.Duration, pacer.Grant) {
	t.Helper()
	g, err := s.Reserve(t.Context(), "k", p, n, most)
	var late *pacer.WaitError
	if errors.As(err, &late) {
		return -1 - late.Wait, g
	}
	require.NoError(t, err)
	require.NotNil(t, g.Cancel)
	return g.Wait, g
}

func TestReserve(t *testing.T) {
	type step struct {
		at   time.Duration
		n    int64
		want time.Duration
	}
	for name, c := range map[string]struct {
		pace  pacer.Pace
		steps []step
	}{
		"a burst, then the rate": {perSecond(10, 3), []step{
			{0, 1, 0}, {0, 2, 0}, {0, 1, 100 * ms}, {0, 2, 300 * ms}, {250 * ms, 1, 150 * ms}, {time.Hour, 3, 0}, {time.Hour, 1, 100 * ms},
		}},
		"no units": {perSecond(10, 1), []step{{0, 0, 0}, {0, 1, 0}, {0, 0, 0}, {0, 1, 100 * ms}, {0, 0, 100 * ms}}},
		"a Burst of zero is 5 ms of the rate": {perSecond(1000, 0), []step{
			{0, 5, 0}, {0, 1, ms}, {10 * ms, 4, 0}, {10 * ms, 1, 0}, {10 * ms, 1, ms},
		}},
		"and at least one": {perSecond(10, 0), []step{{0, 1, 0}, {0, 1, 100 * ms}, {time.Second, 1, 0}, {time.Second, 1, 100 * ms}}},
		"and at least what is asked": {perSecond(10, 0), []step{
			{0, 10, 0}, {0, 10, time.Second}, {time.Second + 500*ms, 10, 500 * ms}, {10 * time.Second, 1, 0}, {10 * time.Second, 1, 100 * ms},
		}},
		"evenly": {pacer.Pace{Rate: pacer.Per(10, time.Second), Shape: pacer.LeakyBucket, Burst: 5}, []step{
			{0, 1, 0}, {0, 3, 100 * ms}, {0, 1, 400 * ms}, {time.Hour, 7, 0}, {time.Hour, 0, 700 * ms}, {time.Hour, 1, 700 * ms},
		}},
		"a rate that is not whole": {pacer.Pace{Rate: pacer.Per(3, time.Millisecond), Burst: 2}, []step{
			{0, 2, 0}, {0, 1, 334 * time.Microsecond}, {0, 1, 667 * time.Microsecond}, {0, 1, ms}, {0, 3 - 1, 2*ms - 333*time.Microsecond},
		}},
		"evenly, not whole": {pacer.Pace{Rate: pacer.Per(3, time.Millisecond), Shape: pacer.LeakyBucket}, []step{
			{0, 1, 0}, {0, 1, 334 * time.Microsecond}, {0, 1, 668 * time.Microsecond},
		}},
		"one a year":         {pacer.Pace{Rate: pacer.Per(1, 365*24*time.Hour), Burst: 1}, []step{{0, 1, 0}, {0, 1, 365 * 24 * time.Hour}}},
		"a billion a second": {perSecond(1e9, 1e9), []step{{0, 1e9, 0}, {0, 1, time.Microsecond}, {0, 999, time.Microsecond}, {0, 1, 2 * time.Microsecond}}},
	} {
		t.Run(name, func(t *testing.T) {
			redises(t, func(t *testing.T, addr string) {
				s := storeAt(t, addr)
				now := clocked(s)
				*now = 1_800_000_000_123_456
				start := *now
				for i, step := range c.steps {
					*now = start + step.at.Microseconds()
					got, _ := reserve(t, s, c.pace, step.n, 1000*24*time.Hour)
					require.Equal(t, step.want, got, "step %d", i)
				}
			})
		})
	}
}

func TestReserveCancel(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		*now = 1_800_000_000_000_000
		p := perSecond(10, 1)
		_, first := reserve(t, s, p, 1, 0)
		wait, second := reserve(t, s, p, 1, time.Second)
		require.Equal(t, 100*ms, wait)
		wait, third := reserve(t, s, p, 1, time.Second)
		require.Equal(t, 200*ms, wait)

		// The latest is as if it had never been, then the one before.
		require.NoError(t, third.Cancel(t.Context()))
		require.NoError(t, third.Cancel(t.Context()))
		require.NoError(t, second.Cancel(t.Context()))
		require.NoError(t, second.Cancel(t.Context()))
		wait, second = reserve(t, s, p, 1, time.Second)
		require.Equal(t, 100*ms, wait)
		wait, third = reserve(t, s, p, 1, time.Second)
		require.Equal(t, 200*ms, wait)

		// Another one's place is taken by who comes next, and may be given back too.
		require.NoError(t, second.Cancel(t.Context()))
		wait, second = reserve(t, s, p, 1, time.Second)
		require.Equal(t, 100*ms, wait)
		require.NoError(t, second.Cancel(t.Context()))
		wait, _ = reserve(t, s, p, 1, time.Second)
		require.Equal(t, 100*ms, wait)
		wait, _ = reserve(t, s, p, 1, 0)
		require.Equal(t, -1-300*ms, wait)

		// A place that has passed is gone.
		require.NoError(t, first.Cancel(t.Context()))
		*now += 250_000
		require.NoError(t, second.Cancel(t.Context()))
		wait, last := reserve(t, s, p, 1, time.Second)
		require.Equal(t, 50*ms, wait)

		// Of two at one instant only the latest is as if it had never been.
		*now += 60_000_000
		twice := perSecond(10, 2)
		_, one := reserve(t, s, twice, 1, 0)
		_, two := reserve(t, s, twice, 1, 0)
		require.NoError(t, one.Cancel(t.Context()))
		wait, _ = reserve(t, s, twice, 1, 0)
		require.Equal(t, -1-100*ms, wait)
		require.NoError(t, two.Cancel(t.Context()))
		wait, _ = reserve(t, s, twice, 1, 0)
		require.Zero(t, wait)

		// What is full needs nothing back, nor does another bucket.
		*now += 3_600_000_000
		require.NoError(t, third.Cancel(t.Context()))
		wait, _ = reserve(t, s, p, 1, time.Second)
		require.Zero(t, wait)
		require.NoError(t, last.Cancel(t.Context()))
		wait, _ = reserve(t, s, p, 1, time.Second)
		require.Equal(t, 100*ms, wait)
	})
}

// What is kept of places is bounded; those beyond are lost.
func TestReservePlacesAreBounded(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		*now = 1_800_000_000_000_000
		p := perSecond(10, 1)
		var all []pacer.Grant
		for range 400 {
			_, g := reserve(t, s, p, 1, time.Hour)
			all = append(all, g)
		}
		for _, i := range rand.Perm(399) {
			require.NoError(t, all[i].Cancel(t.Context()))
		}
		last, places := time.Duration(-1), 0
		for {
			wait, _ := reserve(t, s, p, 1, time.Hour)
			require.Greater(t, wait, last, "the earliest first")
			if last = wait; wait >= 40*time.Second {
				break
			}
			places++
		}
		require.Equal(t, 128, places)
		require.Equal(t, 40*time.Second, last)

		// Those that have passed make room.
		for round := range 3 {
			var first time.Duration
			for i := range all[:129] {
				wait, g := reserve(t, s, p, 1, time.Hour)
				if all[i] = g; i == 0 {
					first = wait
				}
			}
			for _, g := range all[:128] {
				require.NoError(t, g.Cancel(t.Context()))
			}
			wait, _ := reserve(t, s, p, 1, time.Hour)
			require.Equal(t, first, wait)
			end, g := reserve(t, s, p, 1, time.Hour)
			require.Equal(t, 100*ms, end-wait, "round %d", round)
			require.NoError(t, g.Cancel(t.Context()))
			*now += 13_600_000
			reserve(t, s, p, 1, time.Hour)
		}
	})
}

// Evenly: a place is for one, whatever it was of.
func TestReserveEvenPlace(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		*now = 1_800_000_000_000_000
		p := pacer.Pace{Rate: pacer.Per(10, time.Second), Shape: pacer.LeakyBucket}
		reserve(t, s, p, 1, 0)
		_, three := reserve(t, s, p, 3, time.Minute)
		reserve(t, s, p, 1, time.Minute)
		require.NoError(t, three.Cancel(t.Context()))
		for _, want := range []time.Duration{100 * ms, 500 * ms, 600 * ms} {
			wait, _ := reserve(t, s, p, 1, time.Minute)
			require.Equal(t, want, wait)
		}
	})
}

func TestReserveRefusalsTakeNothing(t *testing.T) {
	s := redistest.Start(t)
	store := storeAt(t, s.Addr)
	p := perSecond(1, 1)
	_, err := store.Reserve(t.Context(), "k", p, 2, time.Hour)
	require.ErrorIs(t, err, pacer.ErrTooLarge)
	require.EqualError(t, err, "redisstore: Reserve of 2 units with a Burst of 1: it may be that at most: pacer: n is over Burst")
	_, err = store.Reserve(t.Context(), "k", p, -1, time.Hour)
	require.ErrorContains(t, err, "Reserve of -1 units")
	require.Zero(t, s.Keys())
	wait, _ := reserve(t, store, p, 0, 0)
	require.Zero(t, wait)
	wait, _ = reserve(t, store, pacer.Pace{}, 5, 0)
	require.Zero(t, wait)
	require.Zero(t, s.Keys())
	reserve(t, store, p, 1, 0)
	before := s.Get("polite:p:k")
	wait, _ = reserve(t, store, p, 1, 999*ms-100*ms)
	assert.InDelta(t, float64(-time.Second), float64(wait), float64(50*ms))
	require.Equal(t, before, s.Get("polite:p:k"))

	for _, p := range []pacer.Pace{
		{Rate: pacer.Per(1, 200*365*24*time.Hour)},
		perSecond(1<<60, 0),
		perSecond(1_000_003, 1<<50),
		{Rate: pacer.Rate{Count: 999_999_937, Per: 999_999_893 * time.Second}, Burst: 10},
	} {
		_, err := store.Reserve(t.Context(), "k", p, 1, time.Hour)
		require.ErrorContains(t, err, "exact in Redis", "%+v", p)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	}
}

// The key lives as long as its state, and no longer.
func TestReserveExpires(t *testing.T) {
	s := redistest.Start(t)
	store := storeAt(t, s.Addr)
	for _, p := range []pacer.Pace{perSecond(10, 5), {Rate: pacer.Per(10, time.Second), Shape: pacer.LeakyBucket}} {
		for range 3 {
			reserve(t, store, p, 1, time.Second)
		}
		var left int64
		_, err := fmt.Sscan(s.Do("PTTL", "polite:p:k"), &left)
		require.NoError(t, err)
		assert.InDelta(t, 300, left, 60)
		time.Sleep(350 * ms)
		require.Equal(t, "0", s.Do("EXISTS", "polite:p:k"))
	}
}

// Another rate takes over what was used, whoever sets it.
func TestReserveRateCarriesOver(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		one, two := storeAt(t, addr), storeAt(t, addr)
		now := clocked(one)
		two.now = one.now
		*now = 1_800_000_000_000_000
		slow, fast := perSecond(1, 4), perSecond(1000, 4)
		for range 4 {
			reserve(t, one, slow, 1, 0)
		}
		wait, _ := reserve(t, one, slow, 1, time.Minute)
		require.Equal(t, time.Second, wait)
		*now += 500_000
		wait, _ = reserve(t, two, fast, 1, 0)
		require.Equal(t, -1-1500*time.Microsecond, wait, "half a unit is owed")
		*now += 1_500
		wait, _ = reserve(t, two, fast, 1, 0)
		require.Zero(t, wait, "and earned at the new rate, though nothing was granted at the change")
		wait, _ = reserve(t, one, slow, 1, time.Minute)
		require.Equal(t, time.Second, wait)
		wait, _ = reserve(t, two, perSecond(1000, 50), 1, time.Minute)
		require.Equal(t, 2*ms, wait, "a larger Burst is not full")
		*now += 1_000_000
		wait, _ = reserve(t, two, perSecond(10, 1), 1, 0)
		require.Zero(t, wait)
		wait, _ = reserve(t, two, pacer.Pace{Rate: pacer.Per(10, time.Second), Shape: pacer.LeakyBucket}, 1, time.Minute)
		require.Equal(t, 100*ms, wait)
		wait, _ = reserve(t, two, perSecond(10, 3), 1, time.Minute)
		require.Equal(t, 200*ms, wait)

		// Nor is it full when the smaller one would be.
		*now += 60_000_000
		reserve(t, one, perSecond(10, 1), 1, 0)
		reserve(t, two, perSecond(10, 50), 1, time.Minute)
		*now += 400_000
		wait, _ = reserve(t, two, perSecond(10, 50), 5, time.Minute)
		require.Equal(t, 200*ms, wait)

		// Two that do not agree starve nobody: fractions are kept.
		*now += 60_000_000
		a, b := pacer.Pace{Rate: pacer.Per(7, time.Second), Burst: 2}, pacer.Pace{Rate: pacer.Per(11, time.Second), Burst: 2}
		n := 0
		for i := range 1000 {
			p := []pacer.Pace{a, b}[i%2]
			if wait, _ := reserve(t, two, p, 1, 0); wait == 0 {
				n++
			}
			*now += 10_000
		}
		assert.InDelta(t, 90, n, 6)
	})
}

// A clock that steps back delays nobody, and gives nothing.
func TestReserveClockStepsBack(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		*now = 1_800_000_000_000_000
		for range 3 {
			reserve(t, s, perSecond(10, 2), 1, time.Second)
		}
		*now -= 3_600_000_000
		wait, _ := reserve(t, s, perSecond(10, 2), 1, 0)
		require.Equal(t, -1-200*ms, wait)
		*now += 100_000
		wait, _ = reserve(t, s, perSecond(10, 2), 1, time.Second)
		require.Equal(t, 100*ms, wait, "though nothing was granted when it stepped")

		*now -= 3_600_000_000
		require.NoError(t, s.Hold(t.Context(), "k", 100*time.Microsecond))
		wait, _ = reserve(t, s, perSecond(10, 2), 1, time.Second)
		require.Equal(t, 200*ms, wait)

		require.NoError(t, s.Hold(t.Context(), "k", 10*time.Second))
		*now -= 3_600_000_000
		wait, _ = reserve(t, s, perSecond(10, 2), 1, 0)
		require.Less(t, wait, -10*time.Second)
		require.Greater(t, wait, -12*time.Second, "nor does a hold last longer")
	})
}

func TestReserveJunk(t *testing.T) {
	s := redistest.Start(t)
	store := storeAt(t, s.Addr)
	junk := func() {
		t.Helper()
		was := s.Do("TYPE", "polite:p:k")
		_, err := store.Reserve(t.Context(), "k", perSecond(1, 1), 1, time.Hour)
		var bad *JunkError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "polite:p:k", bad.Key)
		require.ErrorAs(t, store.Hold(t.Context(), "k", time.Second), &bad)
		require.Equal(t, was, s.Do("TYPE", "polite:p:k"))
	}
	s.Do("LPUSH", "polite:p:k", "1")
	junk()
	s.Do("DEL", "polite:p:k")
	_, g := reserve(t, store, perSecond(1, 1), 1, time.Hour)
	reserve(t, store, perSecond(1, 1), 1, time.Hour)
	good := s.Get("polite:p:k")
	rng := rand.New(rand.NewPCG(1, 1))
	broken := 0
	for range times(3000) {
		text := []byte(good)
		for range 1 + rng.IntN(3) {
			switch i := rng.IntN(len(text)); rng.IntN(3) {
			case 0:
				text[i] = "0123456789,;-pe. x"[rng.IntN(18)]
			case 1:
				text = slices.Delete(text, i, i+1)
			default:
				text = slices.Insert(text, i, "0123456789,;-"[rng.IntN(13)])
			}
		}
		s.Do("SET", "polite:p:k", text)
		p := perSecond(1+rng.Int64N(2), 1+rng.Int64N(2))
		_, err := store.Reserve(t.Context(), "k", p, 1, time.Duration(rng.Int64N(int64(time.Hour))))
		if err != nil {
			var bad *JunkError
			var late *pacer.WaitError
			require.True(t, errors.As(err, &bad) || errors.As(err, &late), "%s: %v", text, err)
			broken++
		}
		if err := g.Cancel(t.Context()); err != nil {
			require.ErrorAs(t, err, new(*JunkError))
		}
	}
	assert.Greater(t, broken, times(1000))
	for _, text := range []string{"", "1", "2p1,1000,1;0,0,0,0,0,0,0,0,0;", good + "x", good + "1,", "1p0,0,0;;"} {
		s.Do("SET", "polite:p:k", text)
		junk()
	}
}
