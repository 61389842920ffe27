package limiter

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// paid is how many entries sweeps have looked at: what decisions paid for, less
// what is left of it.
func (m *Memory) paid(decisions int) int64 {
	c := m.start()
	n := int64(decisions)*payment - c.purse.Load()
	for i := range c.shards {
		n -= c.shards[i].credit
	}
	return n
}

// consistent holds what a Memory counts against what it holds.
func (m *Memory) consistent(t *testing.T) {
	t.Helper()
	c := m.start()
	var own, spare, history, shared int64
	count := func(id ident) {
		if id.overflow() {
			spare++
		} else {
			own++
		}
	}
	for i := range c.shards {
		s := &c.shards[i]
		used := 0
		for j := range s.slots {
			if e := &s.slots[j]; !e.id.empty() {
				used++
				count(e.id)
				k := e.id.clock()
				if j != s.find(e.id) || i != c.shardOf(e.id) || e.state.A > s.last[k] || e.state.A < s.first[k] {
					require.Failf(t, "an entry is where none finds it", "shard %d, slot %d: %+v; last %v, first %v", i, j, *e, s.last, s.first)
				}
			}
		}
		require.Equal(t, s.used, used)
		for id, e := range s.longs {
			count(id)
			if id.overflow() {
				shared += e.room
			} else {
				history += e.room
			}
			require.LessOrEqual(t, e.fresh, s.last[id.clock()])
		}
	}
	require.Equal(t, own, c.rooms.own.taken.Load())
	require.Equal(t, spare, c.rooms.spare.taken.Load())
	require.Equal(t, history, c.rooms.history.taken.Load())
	require.Equal(t, shared, c.rooms.shared.taken.Load())
	st := m.Stats()
	require.EqualValues(t, own+spare, st.Keys)
	require.EqualValues(t, spare, st.Overflow)
}

// TestFloodLeavesWhoIsExhausted: 200,000 addresses that come once each.
func TestFloodLeavesWhoIsExhausted(t *testing.T) {
	for _, max := range []int{0, 10_000, 100} {
		synctest.Test(t, func(t *testing.T) {
			m := Memory{MaxKeys: max}
			l := must(TokenBucket("login", Per(1, time.Minute), 5))
			require.True(t, take(t, &m, l, "victim", 5).Allowed)
			admitted, flood := 0, rounds(200_000)
			if max > 0 {
				flood = 30_000
			}
			for i := range flood {
				if d, _ := m.Take(t.Context(), l.Charge(fmt.Sprint("198.51.", i), 1)); d.Allowed {
					admitted++
				}
				if i%1000 == 0 {
					require.False(t, take(t, &m, l, "victim", 1).Allowed)
				}
			}
			m.consistent(t)
			st := m.Stats()
			d := take(t, &m, l, "victim", 1)
			require.False(t, d.Allowed)
			require.Equal(t, time.Minute, d.RetryAfter)
			if max == 0 {
				require.Equal(t, flood, admitted)
				require.Equal(t, flood+1, st.Keys)
				require.LessOrEqual(t, st.Bytes, int64((flood+1)*64))
				return
			}
			shards := len(m.start().shards)
			require.LessOrEqual(t, st.Keys-st.Overflow, max)
			require.LessOrEqual(t, st.Overflow, shards, "one for a limit and a shard")
			require.Equal(t, max-1+5*shards, admitted, "overflow is limited as one key is")
			require.EqualValues(t, flood-(max-1), st.Overflowed)
			require.LessOrEqual(t, st.Bytes, int64(max*64+shards*1024+4096))
		})
	}
}

// TestRoomComesBack: at the bound a key that is spent makes room, and one in
// use does not.
func TestRoomComesBack(t *testing.T) {
	for _, kind := range []func(string, time.Duration) *Limit{
		func(name string, d time.Duration) *Limit { return must(TokenBucket(name, Per(1, d), 1)) },
		func(name string, d time.Duration) *Limit { return must(SlidingLog(name, 1, d)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := Memory{MaxKeys: 8}
			short, long := kind("short", time.Second), kind("long", time.Hour)
			for i := range 4 {
				require.True(t, take(t, &m, short, fmt.Sprint(i), 1).Allowed)
				require.True(t, take(t, &m, long, fmt.Sprint(i), 1).Allowed)
			}
			require.Zero(t, m.Stats().Overflowed)
			d := take(t, &m, long, "a", 1)
			require.True(t, d.Allowed, "the overflow entry admits one")
			require.True(t, d.Overflow)
			d = take(t, &m, long, "b", 1)
			require.False(t, d.Allowed, "and is limited")
			require.True(t, d.Overflow)
			require.False(t, take(t, &m, long, "0", 1).Overflow)
			require.False(t, take(t, &m, long, "b", 0).Allowed, "nor does to ask say otherwise")
			require.EqualValues(t, 3, m.Stats().Overflowed)

			time.Sleep(time.Second)
			for i := range 4 {
				require.True(t, take(t, &m, long, fmt.Sprint("new", i), 1).Allowed)
			}
			require.EqualValues(t, 3, m.Stats().Overflowed, "the four of a second have made room")
			require.False(t, take(t, &m, long, "new4", 1).Allowed)
			for i := range 4 {
				require.False(t, take(t, &m, long, fmt.Sprint(i), 1).Allowed, "who is in use stays")
				require.False(t, take(t, &m, long, fmt.Sprint("new", i), 1).Allowed)
			}
			m.consistent(t)
		})
	}
}

// TestOverflowIsNotRefunded: what a key shares with others may be theirs.
func TestOverflowIsNotRefunded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Memory{MaxKeys: 1}
		l := must(TokenBucket("bucket", Per(1, time.Hour), 3))
		take(t, &m, l, "own", 1)
		require.True(t, take(t, &m, l, "a", 3).Allowed)
		require.NoError(t, m.Refund(t.Context(), l.Charge("a", 2)))
		require.EqualValues(t, 0, take(t, &m, l, "b", 0).Remaining)
		require.EqualValues(t, 2, take(t, &m, l, "own", 0).Remaining)
		require.NoError(t, m.Refund(t.Context(), l.Charge("own", 5)))
		require.EqualValues(t, 3, take(t, &m, l, "own", 0).Remaining)
	})
}

// TestStackInOverflow: keys that share an overflow entry are summed there, and a
// refused stack takes no room.
func TestStackInOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Memory{MaxKeys: 2}
		l := must(TokenBucket("bucket", Per(1, time.Hour), 5))
		log := must(SlidingLog("log", 5, time.Hour))
		require.True(t, take(t, &m, l, "own", 1).Allowed)
		d, err := m.Take(t.Context(), l.Charge("a", 1), l.Charge("b", 6))
		require.NoError(t, err)
		require.True(t, d.Never)
		m.consistent(t)
		require.Equal(t, 1, m.Stats().Keys)

		d, err = m.Take(t.Context(), l.Charge("a", 1), l.Charge("b", 2), l.Charge("c", 3), l.Charge("own", 1), l.Charge("b", 0), log.Charge("z", 5))
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Equal(t, []int64{4, 0, 0, 3, 0, 0}, remaining(d), "b and c share one")
		require.True(t, d.Overflow)
		for i, want := range []bool{false, true, true, false, true, true} {
			require.Equal(t, want, d.Each[i].Overflow, "charge %d", i)
		}
		d, err = m.Take(t.Context(), l.Charge("d", 1), l.Charge("a", 1))
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.False(t, d.Each[0].Allowed)
		require.True(t, d.Each[1].Allowed)
		require.EqualValues(t, 4, d.Each[1].Remaining)
		require.False(t, take(t, &m, log, "y", 1).Allowed, "so does the log")
		m.consistent(t)
		require.Equal(t, 4, m.Stats().Keys)
		require.Equal(t, 2, m.Stats().Overflow)
	})
}

// TestOverflowIsBounded: a program that makes limits without end meets
// refusals, not memory without end.
func TestOverflowIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Memory{MaxKeys: 1}
		admitted := 0
		for range 5000 {
			d := take(t, &m, must(TokenBucket("bucket", Per(1, time.Hour), 1)), "k", 1)
			if d.Allowed {
				admitted++
			} else {
				require.Equal(t, time.Second, d.RetryAfter)
			}
		}
		require.Equal(t, 1+minOverflow, admitted)
		require.Equal(t, 1+minOverflow, m.Stats().Keys)
		require.LessOrEqual(t, m.Stats().Bytes, int64(100_000))
		m.consistent(t)
		time.Sleep(time.Hour)
		require.True(t, take(t, &m, must(TokenBucket("bucket", Per(1, time.Hour), 1)), "k", 1).Allowed)
	})
}

// TestHistoryIsBounded: what logs and buckets may come to is spoken for when a
// key is new, so a key that is in is served to its quota.
func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Memory{MaxHistory: 1000}
		log := must(SlidingLog("log", 100, time.Minute))
		buckets := must(SlidingBuckets("buckets", 1000, time.Minute, 60))
		for i := range 20 {
			for range 3 {
				time.Sleep(time.Millisecond)
				take(t, &m, log, fmt.Sprint(i), 1)
				take(t, &m, buckets, fmt.Sprint(i), 1)
			}
		}
		c := m.start()
		require.LessOrEqual(t, c.rooms.history.taken.Load(), int64(1000))
		require.GreaterOrEqual(t, c.rooms.history.taken.Load(), int64(900))
		require.LessOrEqual(t, c.rooms.shared.taken.Load(), int64(20*(100+61)), "one of each limit in a shard")
		m.consistent(t)
		require.EqualValues(t, 97, take(t, &m, log, "0", 0).Remaining)
		require.EqualValues(t, 997, take(t, &m, buckets, "0", 0).Remaining)
		for range 97 {
			time.Sleep(time.Millisecond)
			require.True(t, take(t, &m, log, "0", 1).Allowed)
		}
		require.False(t, take(t, &m, log, "0", 1).Allowed)
		time.Sleep(2 * time.Minute)
		for range 300 {
			take(t, &m, log, "x", 0)
		}
		require.LessOrEqual(t, m.Stats().Keys, 1)
		m.consistent(t)
	})
}

// TestFloodIsForgotten: little is left of what has expired, by any rule, soon
// after anybody comes again, and what sweeps look at stays within what is paid.
func TestFloodIsForgotten(t *testing.T) {
	for i, l := range []*Limit{
		must(TokenBucket("bucket", Per(1, time.Minute), 1)),
		must(FixedWindow("window", 10, time.Minute, ToClock)),
		must(FixedWindow("window", 10, time.Minute, ToClockPerKey)),
		must(SlidingLog("log", 2, time.Minute)),
	} {
		flood := rounds(200_000)
		if i > 0 {
			flood = 20_000
		}
		for _, others := range []int{0, flood / 200} {
			m := Memory{MaxKeys: flood * 2}
			day := must(FixedWindow("day", 10, 24*time.Hour, ToFirst))
			if l.rule.Long() {
				day = must(SlidingLog("day", 10, 24*time.Hour))
			}
			before, held := heap(), int64(0)
			synctest.Test(t, func(t *testing.T) {
				decisions := flood + others
				for i := range others { // who stay in use
					take(t, &m, day, fmt.Sprint(i), 1)
				}
				for i := range flood {
					if i%100 == 0 {
						time.Sleep(time.Millisecond) // two seconds in all
					}
					_, _ = m.Take(t.Context(), l.Charge(fmt.Sprint("198.51.", i), 1))
				}
				full := m.Stats()
				require.GreaterOrEqual(t, full.Keys, flood)
				held = heap() - before
				time.Sleep(2 * time.Minute)
				for range 1000 {
					time.Sleep(time.Millisecond)
					take(t, &m, day, "somebody", 0)
					decisions++
				}
				st := m.Stats()
				require.LessOrEqual(t, st.Keys, flood/10)
				require.LessOrEqual(t, st.Bytes-st.empty(&m), (full.Bytes-full.empty(&m))/10)
				require.LessOrEqual(t, m.paid(decisions), int64(payment*decisions))
				m.consistent(t)
			})
			if !raced {
				require.LessOrEqual(t, heap()-before, held/10, "the heap says so too")
			}
			runtime.KeepAlive(&m)
		}
	}
}

// empty is what a Memory takes without any keys.
func (MemoryStats) empty(m *Memory) int64 { return (&Memory{MaxKeys: m.MaxKeys}).Stats().Bytes }

// TestIdleMemoryIsFreed: one decision after a long pause forgets all that has
// expired, since that costs no look at it.
func TestIdleMemoryIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory
		l := must(TokenBucket("bucket", Per(1, time.Minute), 1))
		for i := range rounds(50_000) {
			take(t, &m, l, fmt.Sprint(i), 1)
		}
		time.Sleep(time.Hour)
		take(t, &m, l, "x", 1)
		require.Equal(t, 1, m.Stats().Keys)
		require.Less(t, m.Stats().Bytes, int64(50_000)) // 256 shards of three cache lines
		m.consistent(t)
	})
}

// TestSweepsArePaidFor: keys that expire all the time, as buckets do, and keys
// that do not, cost no more than a few looks a decision.
func TestSweepsArePaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory
		short := must(TokenBucket("short", Per(100, time.Second), 10))
		long := must(TokenBucket("long", Per(1, time.Hour), 10))
		decisions := 0
		for i := range 100_000 {
			if i%20 == 0 {
				time.Sleep(time.Millisecond)
			}
			l := short
			if i%10 == 0 {
				l = long
			}
			_, _ = m.Take(t.Context(), l.Charge(fmt.Sprint(i), 1))
			decisions++
		}
		paid := m.paid(decisions)
		require.Positive(t, paid)
		require.LessOrEqual(t, paid, int64(payment*decisions))
		st := m.Stats()
		require.GreaterOrEqual(t, st.Keys, 10_000)
		require.LessOrEqual(t, st.Keys, 30_000, "of 90,000 that have expired")
		m.consistent(t)
	})
}

// TestSweepsWait until they are paid for: one key in each shard that expires
// all the time, among many that do not, is not worth a look at all.
func TestSweepsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory
		short := must(TokenBucket("short", Per(100, time.Second), 1))
		long := must(TokenBucket("long", Per(1, time.Hour), 1))
		decisions := 0
		for i := range 20_000 {
			_, _ = m.Take(t.Context(), long.Charge(fmt.Sprint(i), 1))
			decisions++
		}
		for i := range 3000 {
			time.Sleep(time.Millisecond)
			_, _ = m.Take(t.Context(), short.Charge(fmt.Sprint(i), 1))
			decisions++
		}
		require.LessOrEqual(t, m.paid(decisions), int64(payment*decisions))
		m.consistent(t)
	})
}

// TestBytesAKey: at most 64 for a million keys of 20 characters, all included,
// wherever in its growth the Memory is.
func TestBytesAKey(t *testing.T) {
	if raced {
		t.Skip("the race detector's own memory")
	}
	l := must(TokenBucket("bucket", Per(1, time.Hour), 10))
	before := heap()
	m := &Memory{MaxKeys: -1}
	ctx := context.Background()
	buf := make([]byte, 0, 20)
	for i := range 1_000_000 {
		buf = fmt.Appendf(buf[:0], "account:%012d", i)
		_, _ = m.Take(ctx, l.Charge(string(buf), 1))
		if n := i + 1; n%250_000 == 0 {
			held := heap() - before
			require.LessOrEqual(t, held, int64(64*n), "%d keys", n)
			require.InEpsilon(t, held, m.Stats().Bytes, 0.05, "Stats tells as much")
		}
	}
	require.Equal(t, 1_000_000, m.Stats().Keys)
	runtime.KeepAlive(m)
}

// TestMemoryUnderFireAtTheBound: goroutines that come and go at the bound.
func TestMemoryUnderFireAtTheBound(t *testing.T) {
	for _, max := range []int{20, 9000} {
		m := Memory{MaxKeys: max, MaxHistory: max}
		limits := []*Limit{
			must(TokenBucket("bucket", Per(1000, time.Second), 10)),
			must(FixedWindow("window", 10, 5*time.Millisecond, ToClock)),
			must(SlidingLog("log", 3, 3*time.Millisecond)),
			must(LeakyQueue("queue", Per(1, time.Hour), 10)),
		}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				each := make([]Decision, 3)
				for i := range rounds(10_000) {
					key := fmt.Sprint((g*i*7919 + i) % 12000)
					a, b, c := limits[i%4], limits[(i/4)%4], limits[(i/16)%4]
					_, err := m.TakeInto(context.Background(), each, a.Charge(key, 1), b.Charge(key, int64(i%2)), c.Charge(fmt.Sprint(i), 1))
					if err != nil {
						t.Error(err)
					}
					_, _ = m.Take(context.Background(), a.Charge(key, 1))
					if i%5 == 0 {
						_ = m.Refund(context.Background(), b.Charge(key, 1), c.Charge(key, 1))
					}
					if st := m.start().rooms.own.taken.Load(); st > int64(max)+64 {
						t.Errorf("%d keys", st)
					}
				}
			})
		}
		wg.Wait()
		m.consistent(t)
		require.LessOrEqual(t, m.Stats().Keys-m.Stats().Overflow, max)
		if max == 20 {
			require.Positive(t, m.Stats().Overflowed)
		}
	}
}
