package pacer

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/headerparse"
)

func TestOldestFreshKeyGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Second), Burst: 1, MaxKeys: 3}
		start := time.Now()
		for _, key := range []string{"a", "b", "c"} {
			leave(t, p, start, key, 1)
		}
		time.Sleep(2 * time.Second)
		leave(t, p, start, "a", 1)
		leave(t, p, start, "d", 1)
		assert.ElementsMatch(t, []string{"a", "c", "d"}, keysOf(p))
		assert.Equal(t, Stats{Keys: 3}, p.Stats())
	})
}

func keysOf(p *Pacer) (keys []string) {
	for key := range p.lines {
		keys = append(keys, key)
	}
	return keys
}

// What is in use stays: a used bucket, a hold, a waiter, a call in flight, a
// learnt rate, a spread, a ration. Further keys share an entry, and so a pace, until it
// is as new.
func TestKeyInUseStays(t *testing.T) {
	for name, use := range map[string]func(p *Pacer) (end func()){
		"bucket": func(p *Pacer) func() {
			p.SetRate(Per(1, time.Second), 1)
			leaveNow(p)
			return func() { time.Sleep(time.Second) }
		},
		"large call": func(p *Pacer) func() {
			p.SetRate(Per(10, time.Second), 0)
			_, _ = p.Wait(context.Background(), "used", 100)
			time.Sleep(9 * time.Second)
			return func() { time.Sleep(time.Second) }
		},
		"hold": func(p *Pacer) func() {
			p.Hold("used", time.Now().Add(time.Minute))
			return func() { time.Sleep(time.Minute) }
		},
		"spread": func(p *Pacer) func() {
			p.Observe("used", limited(200, limit("", 100, 5, time.Minute)), time.Now())
			return func() { time.Sleep(time.Minute) }
		},
		"ration": func(p *Pacer) func() {
			p.Observe("used", limited(200, limit("", 100, 0, 2*time.Second)), time.Now())
			time.Sleep(3 * time.Second)
			p.Observe("used", limited(200, limit("", 100, 40, 2*time.Second)), time.Now())
			return func() { time.Sleep(4 * time.Second) }
		},
		"in flight": func(p *Pacer) func() {
			p.MaxInFlight = 1
			release, _ := p.Wait(context.Background(), "used", 1)
			return release
		},
		"learnt": func(p *Pacer) func() {
			p.Observe("used", headerparse.Signal{Status: 429}, time.Now())
			return func() {
				time.Sleep(time.Hour)
				p.Observe("used", headerparse.Signal{Status: 200}, time.Now())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := unjittered(&Pacer{MaxKeys: 1})
				end := use(p)
				release, err := p.Wait(t.Context(), "x", 1)
				require.NoError(t, err)
				release()
				assert.Equal(t, []string{"used"}, keysOf(p))
				assert.EqualValues(t, 1, p.Stats().Overflowed)
				end()
				time.Sleep(100 * ms)
				release, err = p.Wait(t.Context(), "x", 1)
				require.NoError(t, err)
				release()
				assert.Equal(t, []string{"x"}, keysOf(p))
				assert.EqualValues(t, 1, p.Stats().Overflowed)
			})
		})
	}
}

func leaveNow(p *Pacer) { _, _ = p.Wait(context.Background(), "used", 1) }

// A key that began in a shared entry does not get a second bucket.
func TestOverflowKeepsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Second), Burst: 4, MaxKeys: 1}
		start := time.Now()
		leave(t, p, start, "first", 1)
		assert.Zero(t, leave(t, p, start, "x", 4))
		time.Sleep(1500 * ms) // "first" can go, "x" has 1.5 back
		assert.Equal(t, 4*time.Second, leave(t, p, start, "x", 4))
		assert.Equal(t, []string{"first"}, keysOf(p))
		// Two keys of one entry, in one call, are one claim.
		release, err := WaitAll(t.Context(), Claim{p, "x", 1}, Claim{p, sibling(p, "x"), 1})
		require.NoError(t, err)
		release()
		assert.Equal(t, 6*time.Second, time.Since(start))
	})
}

// sibling is another key of the same shared entry.
func sibling(p *Pacer, key string) string {
	for i := 0; ; i++ {
		if s := fmt.Sprint(i); p.slot(s) == p.slot(key) {
			return s
		}
	}
}

func TestMillionKeysAreBounded(t *testing.T) {
	for _, c := range []struct {
		p    *Pacer
		keys int
	}{{&Pacer{}, rounds(1_000_000)}, {&Pacer{Rate: Per(1000, time.Second)}, rounds(100_000)}, {&Pacer{Rate: Per(1, time.Hour), Burst: 1}, rounds(50_000)}} {
		p, ctx := c.p, t.Context()
		before := heapInUse()
		for i := range c.keys {
			key := fmt.Sprint("key-", i)
			if release, err := p.Wait(ctx, key, 1); err == nil {
				release()
			}
			p.Observe(key, limited(200, limit("", 100, 50, time.Hour)), time.Time{})
		}
		grown := heapInUse() - before
		t.Logf("%+v, %d bytes", p.Stats(), grown)
		assert.LessOrEqual(t, grown, int64(4<<20))
		assert.LessOrEqual(t, p.Stats().Keys, 4096)
		runtime.KeepAlive(p)
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
