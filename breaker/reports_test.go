package breaker

import (
	"context"
	"math"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What users of other breakers reported, as tests.
func TestReports(t *testing.T) {
	reports := []struct {
		name string
		test func(*testing.T)
	}{
		{"App-vNext/Polly#216 #217 Netflix/Hystrix#1350: late results", lateResults},
		{"resilience4j#935 #903 #2028: a probe that never reports", lostProbe},
		{"resilience4j#1432 failsafe-lib/failsafe#391: a thousand callers when it may probe", thousandCallers},
		{"nodeshift/opossum#119: one failed probe reopens whatever the volume", oneFailedProbe},
		{"App-vNext/Polly#311 #717 smallrye-fault-tolerance#320: what is no failure does not fail a probe", uncountedProbe},
		{"alibaba/sentinel-golang#315 Sentinel#1769: a ratio of exactly one", ratioOne},
		{"sony/gobreaker#105 #107: cancelled by a sibling", cancelledSibling},
		{"alexfalkowski/go-service#3173: deadline before and after dispatch", deadlines},
		{"envoyproxy/envoy#16392 #33739: hardly any traffic", lowTraffic},
		{"fabfuel/circuitbreaker#31 exaring/hoglet#25: the wall clock steps", wallClock},
		{"fedify-dev/fedify#916 vertx-circuit-breaker#58: a million hosts", manyHosts},
		{"safe-global/safe-client-gateway#3442: a hanging upstream", hangingUpstream},
		{"resilience4j#1597: open while slow calls are in flight", slowInFlight},
		{"sony/gobreaker#52 Polly RetryAfter: the refusal says for how long", refusalSays},
		{"afex/hystrix-go#95 #67: no goroutine, no lost ticket", noGoroutine},
		{"alexfalkowski/go-service#2571 linkerd/linkerd2#11580: refused at once", refusedAtOnce},

		{"resilience4j#920 #1065 #1653: it opens between two attempts", opensBetween},
		{"alexfalkowski/go-service#3019: ten callers cancel", tenCancel},

		{"sony/gobreaker: Goexit in a probe", goexitInProbe},
		{"sony/gobreaker: panic in a probe", panicInProbe},
		{"sony/gobreaker#37 #119: the callback asks the breaker", TestOnChangeMayUseTheBreaker},
		{"sony/gobreaker: at exactly the timeout", exactBoundary},
		{"failsafe-go: stale successes close", staleSuccesses},
		{"failsafe-go: a told wait that overflows", overflow},
	}
	require.Len(t, reports, 24)
	for _, r := range reports {
		t.Run(r.name, r.test)
	}
}

func lateResults(t *testing.T) {
	for _, o := range []Outcome{Neutral, Success, Failure, Unreachable, Throttled} {
		synctest.Test(t, func(t *testing.T) {
			b := exact(&Breaker{Failures: 1, OpenFor: time.Second, MaxOpenFor: time.Hour, FailureRate: 0.5, MinCalls: 2})
			got := log(b)
			var late []Permit
			for range 4 {
				late = append(late, enter(t, b, host))
			}
			do(t, b, host, Failure)
			late[0].Done(o, time.Hour, time.Time{})
			requireRefused(t, b, host, time.Second)
			time.Sleep(time.Second)
			probe := enter(t, b, host)
			late[1].Done(o, time.Hour, time.Time{})
			requireRefused(t, b, host, time.Second)
			probe.Done(Failure, 0, time.Time{})
			requireRefused(t, b, host, 2*time.Second)
			time.Sleep(2 * time.Second)
			probe.Done(Success, 0, time.Time{})
			do(t, b, host, Neutral)
			late[2].Done(o, time.Hour, time.Time{})
			do(t, b, host, Success)
			require.Equal(t, Closed, b.stateOf(host))
			late[3].Done(o, time.Hour, time.Time{})
			require.Equal(t, Closed, b.stateOf(host))
			require.Equal(t, []string{
				"closed>open", "open>half-open", "half-open>open", "open>half-open", "half-open>closed",
			}, *got)
		})
	}
}

func lostProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1})
		do(t, b, host, Failure)
		time.Sleep(30 * time.Second)
		for range 10 {
			_ = enter(t, b, host)
			requireRefused(t, b, host, 30*time.Second)
			time.Sleep(30 * time.Second)
		}
		do(t, b, host, Success)
		require.Equal(t, Closed, b.stateOf(host))
	})
}

func thousandCallers(t *testing.T) {
	for _, outcome := range []Outcome{Success, Failure, Neutral} {
		synctest.Test(t, func(t *testing.T) {
			b := exact(&Breaker{Failures: 1, Probes: 3, OpenFor: time.Second})
			do(t, b, host, Failure)
			time.Sleep(time.Second)
			var out, most, passed atomic.Int64
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					p, err := b.Enter(host, time.Time{})
					if err != nil {
						return
					}
					passed.Add(1)
					for n := out.Add(1); ; {
						if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
							break
						}
					}
					runtime.Gosched()
					time.Sleep(time.Millisecond)
					out.Add(-1)
					p.Done(outcome, 0, time.Time{})
				})
			}
			all.Wait()
			require.EqualValues(t, 1, most.Load())
			require.EqualValues(t, 1, passed.Load()) // all came within that millisecond
		})
	}
}

func oneFailedProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: -1, FailureRate: 0.9, MinCalls: 100, Probes: 10})
		do(t, b, host, times(100, Failure)...)
		time.Sleep(30 * time.Second)
		do(t, b, host, times(9, Success)...)
		do(t, b, host, Failure)
		requireRefused(t, b, host, 30*time.Second)
	})
}

func uncountedProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{UnreachableOnly: true})
		do(t, b, host, times(5, Unreachable)...)
		time.Sleep(30 * time.Second)
		do(t, b, host, Neutral) // does not eat the only probe
		do(t, b, host, Failure) // an answer, so it can be reached
		require.Equal(t, Closed, b.stateOf(host))
	})
}

func ratioOne(t *testing.T) {
	b := exact(&Breaker{Failures: -1, FailureRate: 1, MinCalls: 5})
	do(t, b, host, times(4, Failure)...)
	requireAsksOpen(t, b, host, false)
	do(t, b, host, Failure)
	requireAsksOpen(t, b, host, true)
	for _, share := range []struct {
		rate      float64
		bad, good int
	}{{0.07, 7, 93}, {0.1, 3, 27}, {0.7, 7, 3}, {0.29, 29, 71}, {1.0 / 3, 1, 2}} {
		b := exact(&Breaker{Failures: -1, FailureRate: share.rate, MinCalls: share.bad + share.good})
		do(t, b, host, times(share.good, Success)...)
		do(t, b, host, times(share.bad, Failure)...)
		requireAsksOpen(t, b, host, true)
	}
}

func cancelledSibling(t *testing.T) {
	b := exact(&Breaker{Failures: 2})
	do(t, b, host, Failure, Neutral)
	requireAsksOpen(t, b, host, false)
	do(t, b, host, Failure) // not a success either
	requireAsksOpen(t, b, host, true)
}

func deadlines(t *testing.T) {
	b := exact(&Breaker{Failures: 1, FailureRate: 0.5, MinCalls: 1})
	do(t, b, host, times(100, Neutral)...) // ended before anything was sent
	requireAsksOpen(t, b, host, false)
	bad, all := b.keys.byKey[host].era.Load().window.count()
	require.Zero(t, bad+all)
	do(t, b, host, Unreachable) // fell silent
	requireAsksOpen(t, b, host, true)
}

func lowTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{FailureRate: 0.5})
		for range 1000 { // every second call fails, one call in ten seconds
			do(t, b, host, Failure)
			time.Sleep(10 * time.Second)
			do(t, b, host, Success)
			time.Sleep(10 * time.Second)
			requireAsksOpen(t, b, host, false)
		}
		for range 15 { // all in one window, still too few
			do(t, b, host, Failure)
			do(t, b, host, Success)
			time.Sleep(time.Second)
			requireAsksOpen(t, b, host, false)
		}
	})
}

// stepped is t as read after the wall clock was set by d.
func stepped(t testing.TB, at time.Time, d time.Duration) time.Time {
	s := at
	wall := (*uint64)(unsafe.Pointer(&s)) // seconds from bit 30, see time.Time
	*wall += uint64(d/time.Second) << 30
	require.Equal(t, d, s.Round(0).Sub(at.Round(0)))
	require.Zero(t, s.Sub(at))
	return s
}

func wallClock(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		b := exact(&Breaker{Failures: 1, ProbeTimeout: 10 * time.Second, FailureRate: 0.5, MinCalls: 2})
		now := time.Now()
		p, _ := b.Enter(host, now)
		p.Done(Failure, 0, now)
		after := func(d time.Duration) time.Time { return stepped(t, now.Add(d), step) }
		_, err := b.Enter(host, after(30*time.Second-1))
		require.True(t, refused(err))
		_, err = b.Enter(host, after(30*time.Second))
		require.NoError(t, err)
		left, open := b.Open(host, after(40*time.Second-1))
		require.True(t, open)
		require.EqualValues(t, 1, left)
		_, open = b.Open(host, after(40*time.Second))
		require.False(t, open)
	}
}

func manyHosts(t *testing.T) {
	b := exact(&Breaker{Failures: 2, FailureRate: 0.5, OpenFor: time.Hour})
	before := heapInUse()
	now := time.Now()
	down := "https://down.example.com:443"
	do(t, b, down, Failure, Failure)
	flight := enter(t, b, "https://busy.example.com:443")
	do(t, b, "https://busy.example.com:443", Failure)
	hosts := 1_000_000
	if raceEnabled || testing.Short() {
		hosts = 30_000
	}
	for i := range hosts {
		p, _ := b.Enter("https://"+strconv.Itoa(i)+".example.com:443", now)
		p.Done(Outcome(1+i%2), 0, now)
	}
	assert.Less(t, heapInUse()-before, int64(3<<20))
	require.LessOrEqual(t, b.Stats().Keys, 4096)
	require.Zero(t, b.Stats().Unguarded)
	requireAsksOpen(t, b, down, true)
	flight.Done(Failure, 0, time.Time{})
	requireAsksOpen(t, b, "https://busy.example.com:443", true)
	assert.Equal(t, uint64(hosts+2-4096), b.Stats().Evicted)
}

func hangingUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 5, OpenFor: 30 * time.Second, ProbeTimeout: 35 * time.Second})
		sent := 0
		for range 1800 { // one call a second for half an hour, each hangs for 30 s
			if p, err := b.Enter(host, time.Time{}); err == nil {
				sent++
				time.AfterFunc(30*time.Second, func() { p.Done(Unreachable, 0, time.Time{}) })
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		// Until the first five report, all pass; then one a minute.
		require.InDelta(t, 34+29, sent, 2)
	})
}

func slowInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: -1, FailureRate: 0.5, MinCalls: 20, SlowCall: 2 * time.Second})
		do(t, b, host, times(10, Success)...)
		for range 10 {
			_ = enter(t, b, host) // hang
		}
		time.Sleep(2*time.Second - tick)
		synctest.Wait()
		requireAsksOpen(t, b, host, false)
		time.Sleep(tick)
		synctest.Wait()
		requireRefused(t, b, host, 30*time.Second)
	})
}

func refusalSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1})
		do(t, b, host, Failure)
		time.Sleep(12345 * time.Millisecond)
		requireRefused(t, b, host, 17655*time.Millisecond)
	})
}

func noGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := range 1000 {
		b := exact(&Breaker{Failures: 1})
		do(t, b, strconv.Itoa(i), Failure)
		requireAsksOpen(t, b, strconv.Itoa(i), true)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1})
		do(t, b, host, Failure)
		time.Sleep(30 * time.Second)
		do(t, b, host, Neutral) // taken, and given back unused
		do(t, b, host, Success)
		require.Equal(t, Closed, b.stateOf(host))
	})
}

func refusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1})
		do(t, b, host, Failure)
		start := time.Now()
		_, err := b.Acquire(host)
		require.True(t, refused(err))
		require.Zero(t, time.Since(start))
		// Closing the request's body is the business of who asked.
	})
}

func opensBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1})
		do(t, b, host, Failure) // the first attempt
		start, turns := time.Now(), 0
		for left, open := b.Open(host, time.Time{}); open; left, open = b.Open(host, time.Time{}) {
			turns++
			time.Sleep(left)
		}
		require.Equal(t, 1, turns)
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func tenCancel(t *testing.T) {
	b := exact(&Breaker{Failures: 5})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		func() {
			outcome := Failure
			done, err := b.Acquire(host)
			require.NoError(t, err)
			defer func() { done(outcome) }()
			if ctx.Err() != nil {
				outcome = Neutral
			}
		}()
	}
	requireAsksOpen(t, b, host, false)
}

func goexitInProbe(t *testing.T) { endInProbe(t, runtime.Goexit) }
func panicInProbe(t *testing.T)  { endInProbe(t, func() { panic("in the call") }) }

func endInProbe(t *testing.T, end func()) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1})
		do(t, b, host, Failure)
		time.Sleep(30 * time.Second)
		go func() {
			defer func() { _ = recover() }()
			var outcome Outcome
			done, err := b.Acquire(host)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { done(outcome) }()
			end()
			outcome = Success
		}()
		synctest.Wait()
		require.Equal(t, HalfOpen, b.stateOf(host))
		requireAsksOpen(t, b, host, false)
		do(t, b, host, Success)
		require.Equal(t, Closed, b.stateOf(host))
	})
}

func exactBoundary(t *testing.T) {
	b := exact(&Breaker{Failures: 1, OpenFor: time.Second})
	now := time.Now()
	p, _ := b.Enter(host, now)
	p.Done(Failure, 0, now)
	_, err := b.Enter(host, now.Add(time.Second-1))
	require.True(t, refused(err))
	_, err = b.Enter(host, now.Add(time.Second))
	require.NoError(t, err)
}

func staleSuccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1, Probes: 3})
		var stale []Permit
		for range 3 {
			stale = append(stale, enter(t, b, host))
		}
		do(t, b, host, Failure)
		time.Sleep(30 * time.Second)
		probe := enter(t, b, host)
		for _, p := range stale {
			p.Done(Success, 0, time.Time{})
		}
		require.Equal(t, HalfOpen, b.stateOf(host))
		requireRefused(t, b, host, 30*time.Second)
		probe.Done(Success, 0, time.Time{})
		require.Equal(t, HalfOpen, b.stateOf(host))
	})
}

func overflow(t *testing.T) {
	b := exact(&Breaker{Failures: 1, OpenFor: math.MaxInt64})
	now := time.Now()
	p, _ := b.Enter(host, now)
	p.Done(Failure, math.MaxInt64, now)
	left, open := b.Open(host, now)
	require.True(t, open)
	require.Greater(t, left, 100*365*24*time.Hour)
}
