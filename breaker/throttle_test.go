package breaker

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// report lets calls pass, whatever the share, and reports on each.
func reportTo(t testing.TB, th *Throttle, at time.Time, outcomes ...Outcome) {
	t.Helper()
	for _, o := range outcomes {
		p, err := th.Enter(host, at, math.Nextafter(1, 0))
		require.NoError(t, err)
		p.Done(o, at)
	}
}

// The share is that of the formula, and a draw under it is refused.
func TestThrottleFollowsTheFormula(t *testing.T) {
	for _, c := range []struct {
		throttle         *Throttle
		accepted, failed int
		want             float64
	}{
		{&Throttle{}, 0, 19, 0},                      // too few calls
		{&Throttle{}, 0, 20, 0.9},                    // MaxReject
		{&Throttle{MaxReject: 1}, 0, 20, 20.0 / 21},  //
		{&Throttle{MaxReject: 7}, 0, 20, 20.0 / 21},  // as 1
		{&Throttle{MaxReject: -1}, 0, 20, 0},         // off
		{&Throttle{}, 10, 10, 0},                     // one in K
		{&Throttle{}, 10, 11, 1.0 / 22},              //
		{&Throttle{K: 1.5}, 10, 10, 5.0 / 21},        //
		{&Throttle{K: 0.5}, 10, 10, 10.0 / 21},       // as 1
		{&Throttle{MinCalls: 5}, 0, 4, 0},            //
		{&Throttle{MinCalls: 5}, 0, 5, 5.0 / 6},      //
		{&Throttle{MinCalls: -1}, 0, 1, 0.5},         //
		{&Throttle{K: math.NaN()}, 0, 100, 0},        // nothing sensible: nothing refused
		{&Throttle{}, 100_000, 0, 0},                 //
		{&Throttle{}, 0, 100_000, 0.9},               //
		{&Throttle{MaxReject: 0.25}, 100, 300, 0.25}, // of 200/401
	} {
		t.Run(fmt.Sprintf("K %v, at most %v, %d of %d", c.throttle.K, c.throttle.MaxReject, c.accepted, c.accepted+c.failed), func(t *testing.T) {
			th := c.throttle
			reportTo(t, th, noon, times(c.accepted, Success)...)
			reportTo(t, th, noon, times(c.failed, Failure)...)
			if got := th.Share(host, noon); !math.IsNaN(got) {
				assert.InDelta(t, c.want, got, 1e-9)
			}
			_, err := th.Enter(host, noon, c.want) // not under it
			assert.NoError(t, err)
			if c.want > 0 {
				_, err = th.Enter(host, noon, c.want-1e-9)
				refusal := new(ThrottleError)
				require.ErrorAs(t, err, &refusal)
				assert.Equal(t, host, refusal.Key)
				assert.InDelta(t, c.want, refusal.Share, 1e-9)
				assert.True(t, refusal.Refused())
			}
		})
	}
}

// What was refused here counts as asked; a call that the caller gave up, or
// that never reports, does not count.
func TestThrottleCounts(t *testing.T) {
	th := new(Throttle)
	reportTo(t, th, noon, times(20, Throttled)...)
	reportTo(t, th, noon, times(100, Neutral)...)
	reportTo(t, th, noon, times(10, Success)...)
	assert.InDelta(t, 10.0/31, th.Share(host, noon), 1e-9, "30 asked, 10 accepted")
	for range 10 {
		_, err := th.Enter(host, noon, 0)
		require.Error(t, err)
	}
	assert.InDelta(t, 20.0/41, th.Share(host, noon), 1e-9, "40 asked")
	for range 10 {
		_, err := th.Enter(host, noon, 0.99)
		require.NoError(t, err)
	}
	assert.InDelta(t, 20.0/41, th.Share(host, noon), 1e-9, "those under way do not count")
	assert.EqualValues(t, 10, th.Stats().Refused)
	assert.Zero(t, th.Share("https://other.example.com:443", noon), "keys are apart")
}

// A call that is out for longer than the window counts when it ends.
func TestThrottleWindow(t *testing.T) {
	th := &Throttle{PassEvery: -1}
	p, err := th.Enter(host, noon, 0)
	require.NoError(t, err)
	reportTo(t, th, noon, times(20, Unreachable)...)
	edge := noon.Add(10 * time.Second)
	assert.Equal(t, 0.9, th.Share(host, edge.Add(-tick)))
	assert.Zero(t, th.Share(host, edge), "forgotten")

	p.Done(Unreachable, edge)
	reportTo(t, th, edge.Add(5*time.Second), times(20, Unreachable)...)
	assert.InDelta(t, 0.9, th.Share(host, edge.Add(15*time.Second-tick)), 1e-9)
	assert.Zero(t, th.Share(host, edge.Add(15*time.Second)))
}

// A window that is too long for the arithmetic is an hour.
func TestThrottleLongestWindow(t *testing.T) {
	th := &Throttle{PassEvery: -1, Window: math.MaxInt64}
	reportTo(t, th, noon, times(20, Unreachable)...)
	assert.Equal(t, 0.9, th.Share(host, noon.Add(time.Hour-2*time.Minute)))
	assert.Zero(t, th.Share(host, noon.Add(time.Hour+time.Minute)), "forgotten")
}

// One call passes where none has for a second, whatever it draws.
func TestThrottleLetsOneProbePass(t *testing.T) {
	th := &Throttle{MaxReject: 1, MinCalls: 1}
	reportTo(t, th, noon, Failure)
	enter := func(at time.Duration) bool {
		_, err := th.Enter(host, noon.Add(at), 0)
		return err == nil
	}
	assert.False(t, enter(time.Second-tick))
	require.NoError(t, th.Check(host, noon.Add(time.Second), 0), "asking takes it not")
	assert.True(t, enter(time.Second))
	assert.False(t, enter(time.Second), "one")
	_, err := th.Enter(host, noon.Add(1500*time.Millisecond), 0.999)
	require.NoError(t, err, "by its draw")
	assert.False(t, enter(2*time.Second), "one has passed half a second ago")
	assert.True(t, enter(2500*time.Millisecond))

	never := &Throttle{MaxReject: 1, MinCalls: 1, PassEvery: -1}
	reportTo(t, never, noon, Failure)
	_, err = never.Enter(host, noon.Add(9*time.Second), 0)
	assert.Error(t, err)
}

// Check counts what it refuses, and nothing else. The same draw before a wait
// and after it is one chance.
func TestThrottleCheck(t *testing.T) {
	th := &Throttle{PassEvery: -1}
	assert.NoError(t, th.Check(host, noon, 0))
	assert.Zero(t, th.Stats().Keys, "asking makes nothing known")
	reportTo(t, th, noon, times(20, Failure)...)
	reportTo(t, th, noon, times(5, Success)...)
	before := th.Share(host, noon)
	assert.NoError(t, th.Check(host, noon, before))
	assert.Equal(t, before, th.Share(host, noon))
	assert.Error(t, th.Check(host, noon, 0))
	assert.Greater(t, th.Share(host, noon), before)
}

func TestThrottleAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &Throttle{MinCalls: 1, MaxReject: 1, K: 1}
		for range 1000 { // with a thousand failures one in a thousand passes
			if done, err := th.Acquire(host); err == nil {
				done(Failure)
				done(Success) // once
			}
		}
		assert.InDelta(t, 1000.0/1001, th.Share(host, time.Time{}), 1e-9)
		time.Sleep(time.Second)
		_, err := th.Acquire(host)
		assert.NoError(t, err, "the probe")
	})
}

// A clock of another time, as of a test's bubble, neither silences a key nor
// lets what it counted stay for ever.
func TestThrottleSurvivesAClockThatJumps(t *testing.T) {
	th := &Throttle{MaxReject: 1}
	for range 3 {
		for _, now := range []time.Time{noon.AddDate(-30, 0, 0), noon, noon.AddDate(30, 0, 0)} {
			_, err := th.Enter(host, now, 0)
			require.NoError(t, err, "a probe at least")
			for range 30 {
				if p, err := th.Enter(host, now, 0.99); err == nil {
					p.Done(Failure, now)
				}
			}
			assert.Greater(t, th.Share(host, now), 0.5)
			assert.Greater(t, th.Share(host, now.Add(-time.Second)), 0.5, "a step back counts as no time")
			assert.Zero(t, th.Share(host, now.Add(10*time.Second)))
		}
	}
}

func TestThrottleMemoryIsBounded(t *testing.T) {
	keys, most := 200_000, 4096
	if testing.Short() || raceEnabled {
		keys = 50_000
	}
	before := heapInUse()
	th := new(Throttle)
	for i := range keys {
		key := fmt.Sprintf("https://host-%d.example.com:443", i)
		p, err := th.Enter(key, noon, 0)
		require.NoError(t, err)
		p.Done(Success, noon)
	}
	stats := th.Stats()
	assert.Equal(t, most, stats.Keys)
	assert.EqualValues(t, keys-most, stats.Evicted)
	assert.Zero(t, stats.Unguarded)
	assert.Less(t, heapInUse()-before, int64(3<<20), "bytes")
	runtime.KeepAlive(th)
}

// Keys that matter stay: what does not fit passes unguarded, and is counted.
func TestThrottleForgetsOnlyWhatIsWell(t *testing.T) {
	th := &Throttle{MaxKeys: 4, PassEvery: -1}
	fail := func(key string, at time.Time) {
		p, err := th.Enter(key, at, 1)
		require.NoError(t, err)
		p.Done(Failure, at)
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		for range 20 {
			fail(key, noon)
		}
	}
	p, err := th.Enter("e", noon, 0)
	require.NoError(t, err)
	p.Done(Failure, noon) // of nobody
	assert.Equal(t, ThrottleStats{Keys: 4, Unguarded: 1}, th.Stats())
	assert.Equal(t, 0.9, th.Share("a", noon))

	later := noon.Add(10 * time.Second)
	fail("e", later)
	assert.Equal(t, ThrottleStats{Keys: 4, Evicted: 1, Unguarded: 1}, th.Stats())

	unbounded := &Throttle{MaxKeys: -1}
	for i := range 5000 {
		_, err := unbounded.Enter(fmt.Sprint(i), noon, 0)
		require.NoError(t, err)
	}
	assert.Equal(t, 5000, unbounded.Stats().Keys)
}

func TestThrottleOfManyGoroutines(t *testing.T) {
	th := &Throttle{MaxKeys: 8}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			random := newRand(uint64(g))
			for i := range 2000 {
				key := fmt.Sprint("key ", random.IntN(12))
				if random.IntN(4) == 0 {
					_ = th.Check(key, time.Time{}, random.Float64())
				}
				p, err := th.Enter(key, time.Time{}, random.Float64())
				if err == nil {
					p.Done(Outcome(i%5), time.Time{})
				}
				if share := th.Share(key, time.Time{}); share < 0 || share > 0.9 {
					t.Errorf("share %v", share)
				}
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, th.Stats().Keys, 8)
}

func TestThrottleAllocatesNothing(t *testing.T) {
	th := new(Throttle)
	reportTo(t, th, noon, Success)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_ = th.Check(host, noon, 0.5)
		p, _ := th.Enter(host, noon, 0.5)
		p.Done(Success, noon)
	}))
	Pass{}.Done(Failure, noon) // of nobody
}

func BenchmarkThrottle(b *testing.B) {
	th := new(Throttle)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := th.Enter(host, noon, 0.5)
		p.Done(Success, noon)
	}
}
