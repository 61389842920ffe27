package redisstore

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// tally is a count of today.
func tally(key string, limit int64) quota.Tally {
	start := time.Now().UTC().Truncate(24 * time.Hour)
	return quota.Tally{Quota: "sms", Key: key, Limit: limit, Start: start, End: start.Add(24 * time.Hour)}
}

func spend(t *testing.T, s quota.Store, ta quota.Tally, n int64) (used int64, granted bool) {
	t.Helper()
	used, granted, err := s.Spend(t.Context(), ta, n)
	require.NoError(t, err)
	return used, granted
}

func settle(t *testing.T, s quota.Store, ta quota.Tally, delta, atLeast int64) int64 {
	t.Helper()
	used, err := s.Settle(t.Context(), ta, delta, atLeast)
	require.NoError(t, err)
	return used
}

// The store does what three lines of arithmetic do, and what quota.Memory does.
func TestQuotaAgreesWithArithmetic(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s, memory := storeAt(t, addr), &quota.Memory{}
		random := rand.New(rand.NewPCG(5, 6))
		var oracle [3]int64
		for range times(1000) {
			k := random.IntN(len(oracle))
			ta, u := tally(string(rune('a'+k)), 50), &oracle[k]
			if random.IntN(2) == 0 {
				n := random.Int64N(20)
				fits := *u+max(1, n) <= 50
				if fits {
					*u += n
				}
				got, granted := spend(t, s, ta, n)
				require.Equal(t, fits, granted)
				require.Equal(t, *u, got)
				same, grantedToo := spend(t, memory, ta, n)
				require.Equal(t, granted, grantedToo)
				require.Equal(t, got, same)
				continue
			}
			delta, atLeast := random.Int64N(40)-30, random.Int64N(80)-60
			*u = max(0, *u+delta, atLeast)
			require.Equal(t, *u, settle(t, s, ta, delta, atLeast))
			require.Equal(t, *u, settle(t, memory, ta, delta, atLeast))
		}
	})
}

func TestQuotaIsExact(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		const most = 1 << 53
		s := storeAt(t, addr)
		free := tally("free", math.MaxInt64)
		for _, ta := range []quota.Tally{free, tally("a", most)} {
			used, granted := spend(t, s, ta, most-1)
			require.True(t, granted)
			require.EqualValues(t, most-1, used)
			used, granted = spend(t, s, ta, 1)
			require.True(t, granted)
			require.EqualValues(t, most, used)
			used, granted = spend(t, s, ta, 0)
			require.False(t, granted)
			require.EqualValues(t, most, used)
			require.EqualValues(t, most-1, settle(t, s, ta, -1, 0))
			_, err := s.Settle(t.Context(), ta, 2, 0)
			require.EqualError(t, err, `redisstore: quota "sms": Redis counts exactly up to 9007199254740992, and this would be more`)
			require.EqualValues(t, most, settle(t, s, ta, 1, 0))
			_, err = s.Settle(t.Context(), ta, most+1, 0)
			require.ErrorContains(t, err, "would be more")
			_, err = s.Settle(t.Context(), ta, 0, most+1)
			require.ErrorContains(t, err, "would be more")
			require.Zero(t, settle(t, s, ta, math.MinInt64, math.MinInt64))
			require.EqualValues(t, most, settle(t, s, ta, 0, most))
		}
		// Nothing that is unbounded is refused, so it fails.
		for _, n := range []int64{1, most, most + 1, math.MaxInt64} {
			_, granted, err := s.Spend(t.Context(), free, n)
			require.ErrorContains(t, err, "would be more")
			require.False(t, granted)
			used, granted := spend(t, s, tally("a", most), n)
			require.False(t, granted)
			require.EqualValues(t, most, used)
		}
		_, _, err := s.Spend(t.Context(), tally("b", most+1), 1)
		require.EqualError(t, err, `redisstore: quota "sms": Limit is 9007199254740993: Redis counts exactly up to 9007199254740992`)
		_, _, err = s.Spend(t.Context(), tally("b", 1), -1)
		require.ErrorContains(t, err, "negative")
		used, granted := spend(t, s, tally("none", 0), 0)
		require.False(t, granted)
		require.Zero(t, used)
	})
}

func TestQuotaTellsCountsApart(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		today := tally("a", 1000)
		tomorrow := today
		tomorrow.Start, tomorrow.End = today.End, today.End.AddDate(0, 0, 1)
		spend(t, s, today, 1000)
		_, granted := spend(t, s, tomorrow, 10)
		require.True(t, granted)
		settle(t, s, today, -900, 0)
		n, _ := spend(t, s, tomorrow, 0)
		assert.EqualValues(t, 10, n, "what is given back is yesterday's")
		n, _ = spend(t, s, today, 0)
		assert.EqualValues(t, 100, n, "and the clock may step back")

		all := []quota.Tally{
			{Quota: "a:b", Key: "c"},
			{Quota: "a", Key: "b:c"},
			{Quota: "a", Key: "b"},
			{Quota: "a", Key: "{b}"},
			{Quota: "a", Key: "%7Bb}"},
			{Key: "ab"},
			{Quota: "ab"},
			{},
			{Quota: "a", Key: "b", Start: time.Unix(0, 0), End: time.Unix(0, 1)},
			{Quota: "a", Key: "b", Start: time.Unix(0, 1), End: time.Unix(0, 2)},
			{Quota: "a", Key: "b", Start: time.Unix(-1, 1), End: time.Unix(0, 2)},
			{Quota: string(make([]byte, 4096)), Key: "b"},
			{Quota: string(make([]byte, 4095)), Key: "b"},
		}
		for i := range all {
			all[i].Limit = 1000
			used, granted := spend(t, s, all[i], int64(i+1))
			require.True(t, granted)
			require.EqualValues(t, i+1, used, "%+v", all[i])
		}
	})
}

// A count is there until its period has ended, whatever the limit is by then.
func TestQuotaExpires(t *testing.T) {
	s := redistest.Start(t)
	store := storeAt(t, s.Addr)
	left := func(ta quota.Tally) time.Duration {
		t.Helper()
		spend(t, store, ta, 1)
		n, err := strconv.ParseInt(s.Do("PTTL", store.countKey(&ta)), 10, 64)
		require.NoError(t, err)
		return time.Duration(n) * ms
	}
	now := time.Now()
	about := func(want, got time.Duration) {
		t.Helper()
		assert.InDelta(t, want.Seconds(), got.Seconds(), 5)
	}
	about(25*time.Hour, left(quota.Tally{Quota: "month", Limit: 9, Start: now.AddDate(0, -1, 0), End: now.Add(time.Hour)}))
	about(90*time.Minute, left(quota.Tally{Quota: "hour", Limit: 9, Start: now.Add(-30 * time.Minute), End: now.Add(30 * time.Minute)}))
	about(70*time.Second, left(quota.Tally{Quota: "short", Limit: 9, Start: now, End: now.Add(10 * time.Second)}))
	passed := quota.Tally{Quota: "passed", Limit: 2, Start: now.Add(-10 * time.Minute), End: now.Add(-9 * time.Minute)}
	about(time.Minute, left(passed))
	about(time.Minute, left(passed))
	_, granted := spend(t, store, passed, 1)
	require.False(t, granted, "an end that has passed opens no quota")
	require.Equal(t, -1*ms, left(quota.Tally{Quota: "ever", Limit: 9}))
	spend(t, store, quota.Tally{Quota: "asked", Limit: 9}, 0)
	settle(t, store, quota.Tally{Quota: "asked", Limit: 9}, -5, 0)
	require.Equal(t, "0", s.Do("EXISTS", store.countKey(&quota.Tally{Quota: "asked"})), "nothing is written for nothing")
	_, _, err := store.Spend(t.Context(), quota.Tally{Quota: "far", Limit: 9, End: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}, 1)
	require.ErrorContains(t, err, "at most the year 9999")
}

func TestQuotaOneRoundTripAndJunk(t *testing.T) {
	s := redistest.Start(t)
	store := storeAt(t, s.Addr)
	ta := tally("a", 10)
	spend(t, store, ta, 1)
	settle(t, store, ta, 1, 0)
	s.ResetCalls()
	for range 10 {
		spend(t, store, ta, 1)
	}
	settle(t, store, ta, 1, 0)
	assert.Equal(t, 11, s.Calls()["evalsha"])
	assert.Zero(t, s.Calls()["eval"])

	s.Do("SCRIPT", "FLUSH")
	used, _ := spend(t, store, tally("a", 100), 1)
	assert.EqualValues(t, 12, used)

	key := store.countKey(&ta)
	for _, junk := range []string{"", "7", "1q", "1q-1", "1q1.5", "2q1", "1q9007199254740993123", "1q1 "} {
		s.Do("SET", key, junk)
		_, granted, err := store.Spend(t.Context(), ta, 1)
		var bad *JunkError
		require.ErrorAs(t, err, &bad, "%q", junk)
		require.False(t, granted)
		_, err = store.Settle(t.Context(), ta, 1, 0)
		require.ErrorAs(t, err, &bad)
		require.Equal(t, junk, s.Get(key))
	}
	s.Do("DEL", key)
	s.Do("SADD", key, "x")
	_, _, err := store.Spend(t.Context(), ta, 1)
	require.ErrorAs(t, err, new(*JunkError))

	var told []error
	store.OnDegraded = func(err error) { told = append(told, err) }
	_, _, err = store.Spend(t.Context(), ta, 1)
	_, err2 := store.Settle(t.Context(), ta, 1, 0)
	require.Equal(t, []error{err, err2}, told)
	left, leave := context.WithCancel(t.Context())
	leave()
	_, _, err = store.Spend(left, ta, 1)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, told, 2, "who has left is no failure")
}

// From two processes and many goroutines no more is granted than there is.
func TestQuotaIsAllOrNothing(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		var granted, refused atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			q := &quota.Quota{Name: "sms", Limit: 100, Period: quota.Month, Store: storeAt(t, addr)}
			for range 16 {
				wg.Go(func() {
					for range 10 {
						_, err := q.Spend(t.Context(), "k", 3)
						var spent *quota.SpentError
						switch {
						case err == nil:
							granted.Add(3)
						case errors.As(err, &spent):
							refused.Add(1)
						default:
							assert.NoError(t, err)
						}
					}
				})
			}
		}
		wg.Wait()
		assert.EqualValues(t, 99, granted.Load())
		assert.EqualValues(t, 320-33, refused.Load())
	})
}

// Two processes share a pace and a quota, and Redis goes in between: the quota
// refuses, nothing is spent twice, and both go on when it is back.
func TestQuotaAndPaceEndToEnd(t *testing.T) {
	redis := redistest.Start(t)
	var served atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer provider.Close()
	client := func(processes int64) *http.Client {
		s := storeAt(t, redis.Addr)
		s.Processes = processes
		transport := polite.NewTransport(nil)
		transport.Pacer = &pacer.Pacer{Rate: pacer.Per(200, time.Second), Burst: 2, Shared: s}
		transport.Quotas = []*quota.Quota{{Name: "calls", Limit: 70, Period: quota.Month, Store: s}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	clients := []*http.Client{client(2), client(2)}
	get := func(i int) error {
		resp, err := clients[i%2].Get(provider.URL)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	start := time.Now()
	for i := range 40 {
		require.NoError(t, get(i))
	}
	require.GreaterOrEqual(t, time.Since(start), 38*5*ms, "they share the pace")
	require.EqualValues(t, 40, served.Load())
	redis.Kill()
	for i := range 20 {
		var failed *quota.StoreError
		require.ErrorAs(t, get(i), &failed)
	}
	require.EqualValues(t, 40, served.Load(), "a quota without a store refuses")
	redis.Restart()
	back := time.Now()
	require.Eventually(t, func() bool { return get(0) == nil && get(1) == nil }, time.Second, 5*ms)
	t.Logf("back after %v", time.Since(back))
	before := served.Load()
	var wg sync.WaitGroup
	var spent atomic.Int64
	for i := range 100 {
		wg.Go(func() {
			var refused *quota.SpentError
			if err := get(i); errors.As(err, &refused) {
				spent.Add(1)
			} else {
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	n := served.Load() - before
	assert.LessOrEqual(t, n, int64(68))
	assert.EqualValues(t, 100, n+spent.Load())
	count, err := strconv.ParseInt(redis.Get(countOf(redis))[2:], 10, 64)
	require.NoError(t, err)
	assert.EqualValues(t, 70, count, "what Redis has counted since it is back")
}

// countOf is the key of the only count.
func countOf(s *redistest.Server) string {
	text := s.Do("KEYS", "polite:q:*")
	return text[1 : len(text)-1]
}
