package breaker

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kept reports which of the keys have a circuit.
func kept(b *Breaker, keys ...string) (got []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		if b.keys.byKey[k] != nil {
			got = append(got, k)
		}
	}
	return got
}

func TestWhoGoesFirst(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setUp func(*Breaker) // uses a, b and c
		kept  []string       // once d has come
	}{
		{"the oldest", func(b *Breaker) { do(t, b, "a", Success); do(t, b, "b", Success); do(t, b, "c", Success) }, []string{"b", "c"}},
		{"not what was used again", func(b *Breaker) {
			for _, k := range []string{"a", "b", "c", "a"} {
				do(t, b, k, Success)
			}
		}, []string{"a", "c"}},
		{"what was used again if all were", func(b *Breaker) {
			for _, k := range []string{"a", "b", "c", "a", "b", "c"} {
				do(t, b, k, Success)
			}
		}, []string{"b", "c"}},
		{"not a call in flight", func(b *Breaker) { enter(t, b, "a"); do(t, b, "b", Success); do(t, b, "c", Success) }, []string{"a", "c"}},
		{"failures counted go last", func(b *Breaker) { do(t, b, "a", Failure); do(t, b, "b", Failure); do(t, b, "c", Success) }, []string{"a", "b"}},
		{"but they go", func(b *Breaker) { do(t, b, "a", Failure); do(t, b, "b", Failure); do(t, b, "c", Failure) }, []string{"b", "c"}},
		{"no longer counted", func(b *Breaker) {
			do(t, b, "a", Failure)
			do(t, b, "b", Failure, Success)
			do(t, b, "c", Failure)
		}, []string{"a", "c"}},
		{"told waits go last", func(b *Breaker) {
			enter(t, b, "a").Done(Throttled, time.Second, time.Time{})
			do(t, b, "b", Success)
			do(t, b, "c", Success)
		}, []string{"a", "c"}},
		{"not an open one", func(b *Breaker) { do(t, b, "a", Failure, Failure); do(t, b, "b", Success); do(t, b, "c", Success) }, []string{"a", "c"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := exact(&Breaker{Failures: 2, MaxKeys: 3})
			tc.setUp(b)
			do(t, b, "d", Success)
			require.Equal(t, append(tc.kept, "d"), kept(b, "a", "b", "c", "d"))
			require.Equal(t, 3, b.Stats().Keys)
			require.EqualValues(t, 1, b.Stats().Evicted)
		})
	}
}

func TestFailuresOutOfTheWindowDoNotKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: -1, FailureRate: 0.5, MaxKeys: 2})
		do(t, b, "b", Success)
		do(t, b, "a", Failure)
		time.Sleep(5 * time.Second)
		do(t, b, "b", Failure)
		time.Sleep(5 * time.Second)
		do(t, b, "c", Success)
		require.Equal(t, []string{"b", "c"}, kept(b, "a", "b", "c"))
	})
}

func TestNothingCanGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1, MaxKeys: 3, OpenFor: time.Second, MaxOpenFor: 10 * time.Second, ProbeTimeout: 5 * time.Second})
		do(t, b, "open", Failure)
		do(t, b, "probed", Failure)
		time.Sleep(time.Second)
		enter(t, b, "probed")
		busy := enter(t, b, "busy")
		for i := range 100 {
			k := strconv.Itoa(i)
			do(t, b, k, Failure)
			requireAsksOpen(t, b, k, false)
		}
		require.Equal(t, Stats{Keys: 3, NotClosed: 2, Unguarded: 100}, b.Stats())
		requireRefused(t, b, "probed", time.Second)

		busy.Done(Success, 0, time.Time{})
		do(t, b, "0", Failure) // has room now
		require.Equal(t, Stats{Keys: 3, NotClosed: 3, Unguarded: 100, Evicted: 1}, b.Stats())

		// Nobody came to probe for as long again as they may stay open.
		time.Sleep(10*time.Second - tick)
		do(t, b, "1", Success)
		require.Equal(t, []string{"open", "probed", "0"}, kept(b, "open", "probed", "0", "1"))
		time.Sleep(tick)
		do(t, b, "1", Success)
		require.Equal(t, []string{"probed", "0", "1"}, kept(b, "open", "probed", "0", "1"))
	})
}

// A half-open circuit is abandoned from when its place was given back.
func TestAbandonedHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1, MaxKeys: 1, OpenFor: time.Second, ProbeTimeout: time.Hour})
		do(t, b, "a", Failure)
		time.Sleep(time.Second)
		do(t, b, "a", Neutral)
		time.Sleep(time.Second - tick)
		do(t, b, "b", Success)
		require.Equal(t, []string{"a"}, kept(b, "a", "b"))
		time.Sleep(tick)
		do(t, b, "b", Success)
		require.Equal(t, []string{"b"}, kept(b, "a", "b"))
	})
}

// A spotless circuit is found behind any number that are not.
func TestRoomBehindMany(t *testing.T) {
	b := exact(&Breaker{MaxKeys: 1000})
	for i := range 999 {
		do(t, b, strconv.Itoa(i), Failure)
	}
	do(t, b, "spotless", Success)
	do(t, b, "new", Success)
	require.Empty(t, kept(b, "spotless"))
	require.EqualValues(t, 1, b.Stats().Evicted)
}

func TestMaxKeysOff(t *testing.T) {
	b := &Breaker{MaxKeys: -1}
	for i := range 10_000 {
		do(t, b, strconv.Itoa(i), Success)
	}
	require.Equal(t, Stats{Keys: 10_000}, b.Stats())
}

func TestAdmitSeesWhatHappened(t *testing.T) {
	b := exact(&Breaker{Failures: 1})
	do(t, b, host, Success)
	c := b.recall(host)
	e := c.era.Load()
	do(t, b, host, Failure) // opens between the look and the admission
	require.False(t, c.admit(e))
	require.False(t, e.hasCalls())

	do(t, b, "b", Success)
	c = b.recall("b")
	e = c.era.Load()
	require.True(t, c.admit(e))
	require.False(t, b.forget(c), "a call got in")
	require.Same(t, e, c.era.Load())
	e.leave(0)
	require.True(t, b.forget(c))
	require.False(t, c.admit(e), "it was forgotten")
	require.Nil(t, b.recall("b"))
}

// A call that gets in while its circuit is forgotten is still counted: no
// failure is lost on a circuit that is not in the table.
func TestForgetAgainstEnter(t *testing.T) {
	b := exact(&Breaker{Failures: 1 << 30, MaxKeys: 1})
	const each = 20_000
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			key := strconv.Itoa(g % 2)
			for i := range each {
				if i%8 == 0 {
					runtime.Gosched()
				}
				p, err := b.Enter(key, time.Time{})
				if err != nil {
					t.Error(err)
					return
				}
				if e := p.era; e != nil {
					b.mu.Lock()
					if e.circuit.era.Load() != e {
						t.Error("a call in flight on a circuit that is forgotten")
					}
					b.mu.Unlock()
				}
				p.Done(Success, 0, time.Time{})
			}
		})
	}
	all.Wait()
	s := b.Stats()
	assert.Equal(t, 1, s.Keys)
	assert.NotZero(t, s.Evicted)
	for _, c := range b.keys.byKey {
		assert.False(t, c.era.Load().hasCalls())
	}
}

func TestSlots(t *testing.T) {
	seen := make(map[int]bool)
	for _, key := range []string{"", "a", "https://", "https://a:443", "https://a.b:443", "http://127.0.0.1:8080", "https://[::1]:443"} {
		n := slot(key)
		require.True(t, 0 <= n && n < recentKeys, key)
	}
	for i := range 1000 {
		n := slot("https://" + strconv.Itoa(i) + ".example.com:443")
		require.True(t, 0 <= n && n < recentKeys)
		seen[n] = true
	}
	require.Greater(t, len(seen), recentKeys/2)
}
