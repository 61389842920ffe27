package redisstore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

func TestNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &refuser{t: t}
		s := &Store{Client: f}
		l := made(limiter.TokenBucket("l", limiter.Per(1, time.Second), 2))
		d, err := s.Take(t.Context(), l.Charge("k", 1))
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, time.Second, d.RetryAfter)
		for elapsed := time.Duration(0); elapsed < time.Second; elapsed += 100 * time.Millisecond {
			d, err = s.Take(t.Context(), l.Charge("k", 1))
			require.NoError(t, err)
			require.False(t, d.Allowed)
			require.Equal(t, time.Second-elapsed, d.RetryAfter)
			require.Equal(t, l, d.By)
			d, err = s.Take(t.Context(), l.Charge("k", 2))
			require.NoError(t, err)
			require.Equal(t, 2*time.Second-elapsed, d.RetryAfter, "of another cost")
			time.Sleep(100 * time.Millisecond)
		}
		require.EqualValues(t, 1, f.calls.Load())
		_, _ = s.Take(t.Context(), l.Charge("k", 1))
		require.EqualValues(t, 2, f.calls.Load(), "its time has come")
		_, _ = s.Take(t.Context(), l.Charge("other", 1))
		require.EqualValues(t, 3, f.calls.Load())
		_, _ = s.Take(t.Context(), window("l", 2).Charge("k", 1))
		require.EqualValues(t, 4, f.calls.Load(), "a limit with other numbers")
		_, _ = s.Take(t.Context(), l.Charge("k", 1), window("w", 2).Charge("k", 1))
		require.EqualValues(t, 5, f.calls.Load(), "nothing is known of one of them")
		_ = s.Refund(t.Context(), l.Charge("other", 1))
		_, _ = s.Take(t.Context(), l.Charge("other", 1))
		require.EqualValues(t, 7, f.calls.Load(), "there was a refund")

		off := &Store{Client: f, NearKeys: -1}
		for i := range 3 {
			_, _ = off.Take(t.Context(), l.Charge("k", 1))
			require.EqualValues(t, 8+i, f.calls.Load())
		}
	})
}

// refuser refuses every charge to a token bucket for a second.
type refuser struct {
	t     *testing.T
	calls atomic.Int64
}

func (r *refuser) Eval(_ context.Context, s *Script, keys, args []string) ([]string, error) {
	r.calls.Add(1)
	if s == refundScript {
		return []string{"r"}, nil
	}
	now := time.Now().UnixMicro()
	text, states := fmt.Sprintf("0%d,%d;", now/1e6, now%1e6), ""
	for range keys {
		states += pack("1b", 1, 1_000_000, 2, now+2_000_000, 0)
	}
	return []string{text + states}, nil
}

// A stack all of which is known is refused here too, and says the same.
func TestNearStack(t *testing.T) {
	s, f := flakyStore(t)
	s.NearKeys = 0
	a, b := window("a", 1), window("b", 5)
	_, err := s.Take(t.Context(), a.Charge("k", 1))
	require.NoError(t, err)
	first, err := s.Take(t.Context(), a.Charge("k", 1), b.Charge("k", 2))
	require.NoError(t, err)
	require.False(t, first.Allowed)
	calls := f.calls.Load()
	d, err := s.Take(t.Context(), a.Charge("k", 1), b.Charge("k", 2))
	require.NoError(t, err)
	require.Equal(t, calls, f.calls.Load())
	require.False(t, d.Allowed)
	require.Equal(t, a, d.By)
	require.Len(t, d.Each, 2)
	require.True(t, d.Each[1].Allowed)
	require.EqualValues(t, 5, d.Each[1].Remaining)
	require.InDelta(t, first.RetryAfter, d.RetryAfter, float64(10*time.Second))
}

// What this process was told since of charges that were made counts: a refusal
// says what is left after them, and when it will really be admitted.
func TestNearAfterCharges(t *testing.T) {
	s := storeAt(t, redistest.Start(t).Addr)
	s.NearKeys = 0
	take := func(charges ...limiter.Charge) limiter.Decision {
		t.Helper()
		d, err := s.Take(t.Context(), charges...)
		require.NoError(t, err)
		require.NoError(t, d.Degraded)
		return d
	}
	slow := made(limiter.TokenBucket("slow", limiter.Per(1, time.Hour), 10))
	require.True(t, take(slow.Charge("k", 1)).Allowed)
	d := take(slow.Charge("k", 10))
	require.False(t, d.Allowed)
	require.EqualValues(t, 9, d.Remaining)
	require.True(t, take(slow.Charge("k", 9)).Allowed)
	for range 2 {
		d = take(slow.Charge("k", 10))
		require.False(t, d.Allowed)
		require.Zero(t, d.Remaining)
		require.Greater(t, d.RetryAfter, 9*time.Hour)
	}

	// Of a stack, it is known of each.
	a, b := window("a", 1), window("b", 2)
	require.True(t, take(a.Charge("k", 1), b.Charge("k", 1)).Allowed)
	d = take(a.Charge("k", 1), b.Charge("k", 1))
	require.False(t, d.Allowed)
	require.True(t, d.Each[1].Allowed)
	require.True(t, take(b.Charge("k", 1)).Allowed)
	d = take(a.Charge("k", 1), b.Charge("k", 1))
	require.False(t, d.Each[1].Allowed)
	require.Zero(t, d.Each[1].Remaining)
	b.Global = true
	require.True(t, take(b.Charge("g", 1), b.Charge("h", 2)).Allowed)
	require.False(t, take(b.Charge("g", 2), b.Charge("h", 1)).Allowed)
	require.True(t, take(window("other", 1).Charge("k", 1), b.Charge("g", 1)).Allowed, "in two steps")
	d = take(b.Charge("g", 1), b.Charge("h", 1))
	require.False(t, d.Each[0].Allowed)
}

// Once Refund has returned, nobody here is refused for what it gave back, however
// many asked meanwhile.
func TestNearAfterRefund(t *testing.T) {
	s := storeAt(t, redistest.Start(t).Addr)
	s.NearKeys = 0
	fresh := &Store{Client: s.Client, Timeout: s.Timeout, NearKeys: -1}
	for i := range 100 {
		c := window("w"+strconv.Itoa(i), 1).Charge("k", 1)
		_, err := s.Take(t.Context(), c)
		require.NoError(t, err)
		var stop atomic.Bool
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for !stop.Load() {
					_, err := s.Take(t.Context(), c)
					assert.NoError(t, err)
				}
			})
		}
		time.Sleep(200 * time.Microsecond)
		stop.Store(true)
		require.NoError(t, s.Refund(t.Context(), c))
		group.Wait() // one of them may have got the unit
		ask := c
		ask.Cost = 0
		want, err := fresh.Take(t.Context(), ask)
		require.NoError(t, err)
		d, err := s.Take(t.Context(), ask)
		require.NoError(t, err)
		require.Equal(t, want.Allowed, d.Allowed)
	}
}

// What a log has had long ago is not told as in use, though another limit still
// refuses: only Redis knows how much of it has expired.
func TestNearKnowsWhatHasExpired(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		log := made(limiter.SlidingLog("log", 4, 50*time.Millisecond))
		win := made(limiter.FixedWindow("win", 1, time.Hour, limiter.ToFirst))
		take := func(charges ...limiter.Charge) limiter.Decision {
			d, err := s.Take(t.Context(), charges...)
			require.NoError(t, err)
			require.NoError(t, d.Degraded)
			return d
		}
		require.True(t, take(win.Charge("k", 1)).Allowed)
		require.True(t, take(log.Charge("k", 4)).Allowed)
		require.False(t, take(log.Charge("k", 1), win.Charge("k", 1)).Allowed)
		redistest.Eventually(t, "the log is free again", func() bool {
			d := take(log.Charge("k", 1), win.Charge("k", 1))
			require.Equal(t, win, d.By)
			return d.Each[0].Allowed && d.Each[0].Remaining == 4
		})
	})
}

// A wall clock that is set makes nothing known here stand longer, or shorter.
func TestNearGoesByTheMonotonicClock(t *testing.T) {
	s := &Store{Client: &refuser{t: t}}
	_, err := s.Take(t.Context(), made(limiter.TokenBucket("l", limiter.Per(1, time.Second), 2)).Charge("k", 1))
	require.NoError(t, err)
	n := 0
	for i := range s.near.parts {
		for _, k := range s.near.parts[i].m {
			n++
			assert.Contains(t, k.at.String(), "m=")
			assert.Contains(t, k.until.String(), "m=")
		}
	}
	require.Equal(t, 1, n)
}

// What was asked before a key was dropped is not kept after.
func TestShelfKeepsNothingOld(t *testing.T) {
	var s shelf
	s.forKeys(10)
	k := &known{spec: "x", at: time.Now(), until: time.Now().Add(time.Hour)}
	mark := s.mark("k")
	s.keepSince(&mark, "k", k)
	require.NotNil(t, s.find("k", "x"))
	s.drop("k")
	s.keepSince(&mark, "k", k)
	require.Nil(t, s.find("k", "x"))
	require.Zero(t, s.count.Load())
	mark = s.mark("k")
	s.keepSince(&mark, "k", k)
	require.NotNil(t, s.find("k", "x"))
}

func TestShelfIsBounded(t *testing.T) {
	for _, bound := range []int{1, 5, 16, 17, 100, 9_999, math.MaxInt} {
		var s shelf
		s.forKeys(bound)
		now := time.Now()
		for i := range 10_000 {
			s.keep(fmt.Sprint(i), &known{spec: "x", at: now, until: now.Add(time.Duration(i%2) * time.Hour)})
			if n := s.count.Load(); n > int64(bound) { // require would take most of the time
				t.Fatalf("%d are kept, of at most %d", n, bound)
			}
		}
		live := 0
		for i := range 10_000 {
			if k := s.find(fmt.Sprint(i), "x"); k != nil {
				live++
				require.Nil(t, s.find(fmt.Sprint(i), "y"))
				s.drop(fmt.Sprint(i))
			}
		}
		require.GreaterOrEqual(t, live, min(bound, 10_000)/2, bound)
		require.Zero(t, s.count.Load())
	}
}
