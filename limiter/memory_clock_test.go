package limiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// step sets the wall clock that m knows, as an administrator would.
func (m *Memory) step(d time.Duration) {
	c := &m.start().clock
	steady := c.steady()
	c.correct(steady, c.wall(steady)+int64(d))
	c.compare.Store(1 << 62) // the real one would say otherwise within a second
}

// TestWallClockSteps: what counts elapsed time does not notice; what the
// calendar starts follows, and a step back makes no units and delays nobody
// beyond one full window.
func TestWallClockSteps(t *testing.T) {
	elapsed := []*Limit{
		must(TokenBucket("bucket", Per(1, time.Minute), 2)),
		must(FixedWindow("first", 2, 2*time.Minute, ToFirst)),
		must(SlidingLog("log", 2, 2*time.Minute)),
		must(LeakyMeter("meter", Per(1, time.Minute), 2)),
	}
	for _, l := range elapsed {
		for _, d := range []time.Duration{-1000 * time.Hour, -time.Second, time.Second, 1000 * time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				var m Memory
				require.True(t, take(t, &m, l, "k", 2).Allowed)
				time.Sleep(30 * time.Second)
				before := take(t, &m, l, "k", 1)
				require.False(t, before.Allowed)
				m.step(d)
				require.Equal(t, before, take(t, &m, l, "k", 1), "%s, %v", l.Name(), d)
				time.Sleep(before.RetryAfter)
				require.True(t, take(t, &m, l, "k", 1).Allowed)
			})
		}
	}
	for _, l := range []*Limit{
		must(FixedWindow("clock", 2, time.Hour, ToClock)),
		must(FixedWindow("clock", 2, time.Hour, ToClockPerKey)),
	} {
		synctest.Test(t, func(t *testing.T) {
			var m Memory
			require.True(t, take(t, &m, l, "k", 2).Allowed)
			m.step(-1000 * time.Hour)
			for range 3 {
				d := take(t, &m, l, "k", 1)
				require.False(t, d.Allowed, "no units for a step back")
				require.LessOrEqual(t, d.RetryAfter, time.Hour)
			}
			time.Sleep(time.Hour)
			require.True(t, take(t, &m, l, "k", 2).Allowed, "and no more than an hour's wait")
			m.step(1000*time.Hour + 59*time.Minute)
			require.True(t, take(t, &m, l, "k", 1).Allowed, "another window")
			m.consistent(t)
		})
	}
	synctest.Test(t, func(t *testing.T) { // it starts at 00:00:00
		var m Memory
		l := must(FixedWindow("clock", 1, time.Hour, ToClock))
		m.step(20 * time.Minute)
		require.Equal(t, 40*time.Minute, take(t, &m, l, "k", 1).ResetAfter, "windows follow the wall clock")
	})
}

// TestClockWasFarAhead: what came while the clock was years ahead is forgotten in
// time, and makes room.
func TestClockWasFarAhead(t *testing.T) {
	for _, l := range []*Limit{
		must(FixedWindow("clock", 2, time.Hour, ToClock)),
		must(FixedWindow("clock", 2, time.Hour, ToClockPerKey)),
		must(Quota("day", 2, Day, nil)),
	} {
		synctest.Test(t, func(t *testing.T) {
			m := Memory{MaxKeys: 1000}
			require.True(t, take(t, &m, l, "before", 2).Allowed)
			m.step(10 * 365 * 24 * time.Hour)
			for i := range 999 {
				require.True(t, take(t, &m, l, fmt.Sprint(i), 2).Allowed)
			}
			m.step(-10 * 365 * 24 * time.Hour)
			require.False(t, take(t, &m, l, "7", 1).Allowed, "no units for a step back")
			for range 2 {
				for range 2000 { // there is always somebody
					take(t, &m, l, "other", 0)
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Duration(l.rule.Reach()))
			}
			for i := range 500 {
				d := take(t, &m, l, fmt.Sprint("new", i), 1)
				require.True(t, d.Allowed && !d.Overflow, l.Name())
			}
			m.consistent(t)
		})
	}
}

// TestClockIsCompared: the wall clock is looked at once a second, small
// differences being nobody's business.
func TestClockIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.start()
		require.Equal(t, time.Now().UnixNano(), c.steady())
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, time.Now().UnixNano(), c.steady())
		c.offset.Store(int64(time.Hour)) // as if the wall clock had since been set an hour back
		require.Equal(t, c.steady(), c.wall(c.steady()))
		c.offset.Store(int64(time.Hour))
		require.Equal(t, c.steady()+int64(time.Hour), c.wall(c.steady()), "not twice a second")
		time.Sleep(time.Second)
		require.Equal(t, c.steady(), c.wall(c.steady()))
		c.correct(c.steady(), c.steady()+int64(compareWithin)-1)
		require.Zero(t, c.offset.Load())
		c.correct(c.steady(), c.steady()-int64(compareWithin))
		require.Equal(t, -int64(compareWithin), c.offset.Load())
	})
}

// TestMemoryInTwoTimes: a program's own Memory may be used by tests in bubbles,
// whose clocks start in 2000 and tick for themselves.
func TestMemoryInTwoTimes(t *testing.T) {
	var m Memory
	l := must(TokenBucket("bucket", Per(1, time.Hour), 2))
	window := must(FixedWindow("window", 2, time.Hour, ToClock))
	use := func(t *testing.T) {
		for _, l := range []*Limit{l, window} {
			take(t, &m, l, t.Name(), 1)
			take(t, &m, l, t.Name(), 1)
			require.False(t, take(t, &m, l, t.Name(), 1).Allowed, l.Name())
			require.LessOrEqual(t, take(t, &m, l, t.Name(), 1).RetryAfter, time.Hour)
		}
	}
	t.Run("outside", use)
	for _, name := range []string{"bubble", "another"} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, use) })
	}
	t.Run("outside again", func(t *testing.T) {
		use(t)
		require.Equal(t, 2, m.Stats().Keys, "what was another time's is forgotten")
	})
	t.Run("in a bubble again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			use(t)
			time.Sleep(time.Hour)
			use(t)
		})
	})
	m.consistent(t)
}
