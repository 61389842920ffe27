package breaker

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSlowCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 3, SlowCall: time.Second})
		got := log(b)
		var hanging []Permit
		for range 3 {
			hanging = append(hanging, enter(t, b, host))
		}
		time.Sleep(time.Second - tick)
		synctest.Wait()
		requireAsksOpen(t, b, host, false)
		time.Sleep(tick)
		synctest.Wait()
		requireRefused(t, b, host, 30*time.Second)
		time.Sleep(30 * time.Second)

		probe := enter(t, b, host)
		for _, p := range hanging {
			p.Done(Success, 0, time.Time{})
		}
		require.Equal(t, HalfOpen, b.stateOf(host))
		time.Sleep(time.Second)
		synctest.Wait()
		requireRefused(t, b, host, 30*time.Second)
		probe.Done(Success, 0, time.Time{})
		requireRefused(t, b, host, 30*time.Second)
		require.Equal(t, []string{"closed>open", "open>half-open", "half-open>open"}, *got)
	})
}

func TestSlowCallCountsOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		b    *Breaker
		o    Outcome
		want bool // two of them open
	}{
		{"success after all", &Breaker{Failures: 3}, Success, false},
		{"failure after all", &Breaker{Failures: 3}, Failure, false},
		{"unreachable after all", &Breaker{Failures: 3}, Unreachable, false},
		{"cancelled after all", &Breaker{Failures: 2}, Neutral, true},
		{"success does not end the run", &Breaker{Failures: 2}, Success, true},
		{"rate", &Breaker{Failures: -1, FailureRate: 1, MinCalls: 3}, Failure, false},
		{"rate, success", &Breaker{Failures: -1, FailureRate: 1, MinCalls: 2}, Success, true},
		{"unreachable only", &Breaker{Failures: 2, UnreachableOnly: true, FailureRate: 1}, Unreachable, true},
		{"unreachable only, answers", &Breaker{Failures: 2, UnreachableOnly: true, FailureRate: 1}, Failure, false},
		{"unreachable only, no rate", &Breaker{Failures: 2, UnreachableOnly: true}, Unreachable, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := exact(tc.b)
				b.SlowCall = time.Second
				for range 2 {
					p := enter(t, b, host)
					time.Sleep(2 * time.Second)
					synctest.Wait()
					p.Done(tc.o, 0, time.Time{})
				}
				requireAsksOpen(t, b, host, tc.want)
			})
		})
	}
}

// Where a slow call counts for nothing, a slow probe keeps its place.
func TestSlowProbeUnderUnreachableOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1, UnreachableOnly: true, SlowCall: time.Second})
		do(t, b, host, Unreachable)
		time.Sleep(30 * time.Second)
		p := enter(t, b, host)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, HalfOpen, b.stateOf(host))
		p.Done(Success, 0, time.Time{})
		require.Equal(t, Closed, b.stateOf(host))
	})
}

// On a busy machine a call may end before its timer is served.
func TestSlowCallWithLateTimer(t *testing.T) {
	b := exact(&Breaker{Failures: 1, SlowCall: time.Hour})
	now := time.Now()
	p, err := b.Enter(host, now)
	require.NoError(t, err)
	p.Done(Success, 0, now.Add(time.Hour))
	require.Equal(t, Closed, b.stateOf(host))
	p, err = b.Enter(host, now)
	require.NoError(t, err)
	p.Done(Success, 0, now.Add(time.Hour+1))
	require.Equal(t, Open, b.stateOf(host))
}

func TestSlowCallLeaksNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	heap := heapInUse()
	b := &Breaker{SlowCall: time.Hour}
	for range 10_000 {
		p, _ := b.Enter(host, time.Time{})
		p.Done(Success, 0, time.Time{})
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
	assert.Less(t, heapInUse()-heap, int64(500<<10), "timers of calls that ended")
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine stays
		b := &Breaker{SlowCall: time.Second}
		for range 100 {
			_ = enter(t, b, host) // never reports
		}
		time.Sleep(time.Second)
	})
}

// The share of failures has a slow call once, whatever becomes of it.
func TestSlowCallInTheWindowOnce(t *testing.T) {
	for _, o := range allOutcomes {
		synctest.Test(t, func(t *testing.T) {
			b := exact(&Breaker{UnreachableOnly: true, FailureRate: 0.5, SlowCall: time.Second})
			p := enter(t, b, host)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			p.Done(o, 0, time.Time{})
			bad, all := b.recall(host).era.Load().window.count()
			require.Equal(t, [2]int64{1, 1}, [2]int64{bad, all}, o)
		})
	}
}

// A probe that lost its place says nothing by getting slow.
func TestSlowCallWithoutItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1, ProbeTimeout: 5 * time.Second, SlowCall: 8 * time.Second})
		do(t, b, host, Failure)
		time.Sleep(30 * time.Second)
		lost := enter(t, b, host)
		time.Sleep(5 * time.Second)
		second := enter(t, b, host)
		time.Sleep(3 * time.Second) // lost is slow now
		synctest.Wait()
		requireRefused(t, b, host, 2*time.Second)
		lost.Done(Failure, 0, time.Time{})
		second.Done(Success, 0, time.Time{})
		require.Equal(t, Closed, b.stateOf(host))
	})
}
