package breaker

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestZeroValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Breaker
		requireAsksOpen(t, &b, host, false)
		do(t, &b, host, times(4, Failure)...)
		do(t, &b, host, Success)
		do(t, &b, host, times(4, Failure)...)
		requireAsksOpen(t, &b, host, false)
		do(t, &b, host, Unreachable)

		left, open := b.Open(host, time.Time{})
		require.True(t, open)
		require.Greater(t, left, 15*time.Second)
		require.LessOrEqual(t, left, 30*time.Second)
		requireAsksOpen(t, &b, "https://other.example.com:443", false)

		time.Sleep(left - tick)
		requireRefused(t, &b, host, 1)
		time.Sleep(tick)
		requireAsksOpen(t, &b, host, false)
		do(t, &b, host, Success)
		do(t, &b, host, times(4, Failure)...)
		requireAsksOpen(t, &b, host, false)
	})
}

func TestOutcomesWhileClosed(t *testing.T) {
	for _, tc := range []struct {
		name     string
		b        *Breaker
		outcomes string // s, f, u, t, n
		opens    bool
	}{
		{"a run", &Breaker{}, "fffff", true},
		{"a run of both kinds", &Breaker{}, "fufuf", true},
		{"one too few", &Breaker{}, "ffff", false},
		{"a success ends it", &Breaker{}, "ffffsffff", false},
		{"neutral does not end it", &Breaker{}, "ffnffnf", true},
		{"neutral is no failure", &Breaker{}, "nnnnnnnn", false},
		{"a throttle does not end it", &Breaker{}, "fftfftf", true},
		{"a throttle is no failure", &Breaker{}, "tttttttt", false},
		{"an unknown outcome is neutral", &Breaker{}, "ff?ff?f", true},
		{"an unknown outcome is no failure", &Breaker{}, "????????", false},
		{"Failures 1", &Breaker{Failures: 1}, "f", true},
		{"Failures off", &Breaker{Failures: -1}, "ffffffffffffffffffffffff", false},
		{"unreachable only: failures", &Breaker{UnreachableOnly: true}, "ffffffffff", false},
		{"unreachable only: unreachable", &Breaker{UnreachableOnly: true}, "uuuuu", true},
		{"unreachable only: a failure between", &Breaker{UnreachableOnly: true}, "ufufufufu", true},
		{"unreachable only: a failure between, rate on", &Breaker{UnreachableOnly: true, FailureRate: 0.5}, "uuuufu", true},
		{"unreachable only: a failure does not open", &Breaker{UnreachableOnly: true}, "uuuuffff", false},
		{"unreachable only: a success between", &Breaker{UnreachableOnly: true}, "uuuusuuuu", false},
		{"unreachable only: a throttle does not", &Breaker{UnreachableOnly: true}, "uuuutu", true},
		{"rate: half of 20", &Breaker{Failures: -1, FailureRate: 0.5}, "sfsfsfsfsfsfsfsfsfsf", true},
		{"rate: too few calls", &Breaker{Failures: -1, FailureRate: 0.5}, "sfsfsfsfsfsfsfsfsff", false},
		{"rate: a little under half", &Breaker{Failures: -1, FailureRate: 0.5}, "ssfsfsfsfsfsfsfsfsfsf", false},
		{"rate: neither throttled nor neutral count", &Breaker{Failures: -1, FailureRate: 0.5}, "sfsfsfsfsfsfsfsfsfttttnnnn", false},
		{"rate: MinCalls", &Breaker{Failures: -1, FailureRate: 0.5, MinCalls: 2}, "sf", true},
		{"rate: MinCalls 1", &Breaker{Failures: -1, FailureRate: 0.5, MinCalls: -1}, "f", true},
		{"rate: 1.0 needs all", &Breaker{Failures: -1, FailureRate: 1, MinCalls: 4}, "sffffffff", false},
		{"rate: 1.0 at all", &Breaker{Failures: -1, FailureRate: 1, MinCalls: 4}, "ffff", true},
		{"rate: over 1 is never", &Breaker{Failures: -1, FailureRate: 1.1, MinCalls: 4}, "ffffffff", false},
		{"rate: not a number is off", &Breaker{Failures: -1, FailureRate: math.NaN(), MinCalls: 4}, "ffffffff", false},
		{"rate: a window below zero is off", &Breaker{Failures: -1, FailureRate: 0.5, MinCalls: 1, Window: -1}, "ffffffff", false},
		{"rate: failures count under UnreachableOnly", &Breaker{UnreachableOnly: true, FailureRate: 0.5}, strings.Repeat("f", 20), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := exact(tc.b)
			for i, o := range tc.outcomes {
				require.Equal(t, Closed, b.stateOf(host), "before outcome %d", i)
				do(t, b, host, map[rune]Outcome{'s': Success, 'f': Failure, 'u': Unreachable, 't': Throttled, 'n': Neutral, '?': 99}[o])
			}
			requireAsksOpen(t, b, host, tc.opens)
		})
	}
}

func TestOutcomesOfAProbe(t *testing.T) {
	for _, tc := range []struct {
		name string
		b    *Breaker
		o    Outcome
		want State
	}{
		{"success", &Breaker{}, Success, Closed},
		{"failure", &Breaker{}, Failure, Open},
		{"unreachable", &Breaker{}, Unreachable, Open},
		{"throttled", &Breaker{}, Throttled, Open},
		{"neutral", &Breaker{}, Neutral, HalfOpen},
		{"unknown", &Breaker{}, 99, HalfOpen},
		{"success of two", &Breaker{Probes: 2}, Success, HalfOpen},
		{"failure under UnreachableOnly", &Breaker{UnreachableOnly: true}, Failure, Closed},
		{"failure under UnreachableOnly with rate", &Breaker{UnreachableOnly: true, FailureRate: 0.5}, Failure, Open},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := exact(tc.b)
				do(t, b, host, times(5, Unreachable)...)
				time.Sleep(30 * time.Second)
				do(t, b, host, tc.o)
				require.Equal(t, tc.want, b.stateOf(host))
				requireAsksOpen(t, b, host, tc.want == Open) // a free place is open to all
			})
		})
	}
}

func TestProbesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1, OpenFor: 10 * time.Second, Probes: 3})
		got := log(b)
		do(t, b, host, Failure)
		time.Sleep(10 * time.Second)
		for range 2 {
			p := enter(t, b, host)
			requireRefused(t, b, host, 10*time.Second) // OpenFor, less than the ProbeTimeout
			p.Done(Success, 0, time.Time{})
			p.Done(Failure, 0, time.Time{}) // once only
		}
		require.Equal(t, HalfOpen, b.stateOf(host))
		do(t, b, host, Success)
		require.Equal(t, []string{"closed>open", "open>half-open", "half-open>closed"}, *got)
	})
}

func TestProbeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1, OpenFor: time.Minute, ProbeTimeout: 20 * time.Second})
		do(t, b, host, Failure)
		time.Sleep(time.Minute)
		lost := enter(t, b, host)
		requireRefused(t, b, host, 20*time.Second)
		time.Sleep(20*time.Second - tick)
		requireRefused(t, b, host, 1)
		time.Sleep(tick)
		requireAsksOpen(t, b, host, false)
		second := enter(t, b, host)
		lost.Done(Success, 0, time.Time{}) // its place is another's
		require.Equal(t, HalfOpen, b.stateOf(host))
		requireRefused(t, b, host, 20*time.Second)

		time.Sleep(25 * time.Second)
		second.Done(Success, 0, time.Time{}) // late, but nobody took its place
		require.Equal(t, Closed, b.stateOf(host))
	})
}

func TestProbeTimeoutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1, ProbeTimeout: -1})
		do(t, b, host, Failure)
		time.Sleep(30 * time.Second)
		p := enter(t, b, host)
		time.Sleep(1000 * time.Hour)
		requireRefused(t, b, host, 30*time.Second)
		p.Done(Success, 0, time.Time{})
		requireAsksOpen(t, b, host, false)
	})
}

func TestOpenPeriodGrows(t *testing.T) {
	for _, tc := range []struct {
		openFor, most time.Duration
		want          string
	}{
		{time.Second, 60 * time.Second, "[1s 2s 4s 8s 16s 32s 1m0s 1m0s]"},
		{time.Second, 0, "[1s 1s 1s 1s 1s 1s 1s 1s]"},
		{time.Second, -1, "[1s 1s 1s 1s 1s 1s 1s 1s]"},
		{10 * time.Second, time.Second, "[10s 10s 10s 10s 10s 10s 10s 10s]"},
		{0, time.Minute, "[30s 1m0s 1m0s 1m0s 1m0s 1m0s 1m0s 1m0s]"},
		{math.MaxInt64 / 3, math.MaxInt64, "[854015h55m45.618258602s 1708031h51m31.236517204s 2562047h47m16.854775807s]"},
	} {
		t.Run(fmt.Sprint(tc.openFor, tc.most), func(t *testing.T) {
			var got []time.Duration
			for n := range strings.Count(tc.want, " ") + 1 {
				got = append(got, period((&Breaker{OpenFor: tc.openFor}).openFor(), (&Breaker{OpenFor: tc.openFor, MaxOpenFor: tc.most}).maxOpenFor(), n))
			}
			assert.Equal(t, tc.want, fmt.Sprint(got))
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 1, OpenFor: time.Second, MaxOpenFor: 3 * time.Second})
		do(t, b, host, Failure)
		for _, want := range []time.Duration{1, 2, 3, 3} {
			requireRefused(t, b, host, want*time.Second)
			time.Sleep(want*time.Second - tick)
			requireRefused(t, b, host, 1)
			time.Sleep(tick)
			do(t, b, host, Failure)
		}
		time.Sleep(3 * time.Second)
		do(t, b, host, Success) // closes
		do(t, b, host, Failure)
		requireRefused(t, b, host, time.Second)
	})
}

func TestJitter(t *testing.T) {
	now := time.Now()
	var least, most time.Duration = math.MaxInt64, 0
	for range 2000 {
		b := &Breaker{Failures: 1, OpenFor: 10 * time.Second}
		p, _ := b.Enter(host, now)
		p.Done(Failure, 0, now)
		left, _ := b.Open(host, now)
		least, most = min(least, left), max(most, left)
	}
	assert.Greater(t, least, 5*time.Second)
	assert.Less(t, least, 5100*time.Millisecond)
	assert.Greater(t, most, 9900*time.Millisecond)
	assert.LessOrEqual(t, most, 10*time.Second)
}

func TestToldWait(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		name        string
		told        time.Duration
		least, most time.Duration
	}{
		{"none", 0, 500 * time.Millisecond, time.Second},
		{"shorter than the period", 100 * time.Millisecond, 500 * time.Millisecond, time.Second},
		{"longer", 20 * time.Second, 20 * time.Second, 22 * time.Second},
		{"an hour", time.Hour, time.Hour, 66 * time.Minute},
		{"a hundred years", 876000 * time.Hour, time.Hour, 66 * time.Minute},
		{"below zero", -time.Hour, 500 * time.Millisecond, time.Second},
		{"least of all", math.MinInt64, 500 * time.Millisecond, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 200 {
				for _, o := range []Outcome{Failure, Unreachable} {
					b := &Breaker{Failures: 1, OpenFor: time.Second}
					p, _ := b.Enter(host, now)
					p.Done(o, tc.told, now)
					left, _ := b.Open(host, now)
					require.True(t, tc.least <= left && left <= tc.most, left)
				}
				b := &Breaker{Failures: 1, OpenFor: time.Second} // and by a probe
				p, _ := b.Enter(host, now)
				p.Done(Failure, 0, now)
				later := now.Add(time.Second)
				p, err := b.Enter(host, later)
				require.NoError(t, err)
				p.Done(Throttled, tc.told, later)
				left, open := b.Open(host, later)
				require.True(t, open && tc.least <= left && left <= tc.most, left)
			}
		})
	}
}

func TestToldWhileClosedLastsIntoOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: 2, OpenFor: time.Second})
		enter(t, b, host).Done(Throttled, 20*time.Second, time.Time{})
		enter(t, b, host).Done(Throttled, 10*time.Second, time.Time{}) // the longer one stands
		requireAsksOpen(t, b, host, false)
		time.Sleep(5 * time.Second)
		do(t, b, host, Unreachable, Unreachable)
		requireRefused(t, b, host, 15*time.Second)
	})
}

func TestAcquireTwice(t *testing.T) {
	b := exact(&Breaker{Failures: 2})
	done, err := b.Acquire(host)
	require.NoError(t, err)
	for range 10 {
		done(Failure)
	}
	require.Equal(t, Closed, b.stateOf(host))
	p := enter(t, b, host) // a permit twice is a mistake, but breaks no count
	p.Done(Neutral, 0, time.Time{})
	p.Done(Neutral, 0, time.Time{})
	require.False(t, b.keys.byKey[host].era.Load().hasCalls())
	Permit{}.Done(Failure, time.Hour, time.Time{})
}

func TestOpenError(t *testing.T) {
	b := exact(&Breaker{Failures: 1})
	now := time.Now()
	p, _ := b.Enter(host, now)
	p.Done(Failure, 0, now)
	_, err := b.Enter(host, now)
	require.EqualError(t, err, `breaker: the circuit of "https://api.example.com:443" is open, ask again in 30s`)
	var local interface{ Refused() bool }
	require.ErrorAs(t, err, &local)
	require.True(t, local.Refused())
	var open interface{ OpenFor() time.Duration }
	require.ErrorAs(t, err, &open)
	require.Equal(t, 30*time.Second, open.OpenFor())
}

func TestNames(t *testing.T) {
	assert.Equal(t, "neutral success failure unreachable throttled breaker.Outcome(9)",
		fmt.Sprint(Neutral, " ", Success, " ", Failure, " ", Unreachable, " ", Throttled, " ", Outcome(9)))
	assert.Equal(t, "closed open half-open breaker.State(9)",
		fmt.Sprint(Closed, " ", Open, " ", HalfOpen, " ", State(9)))
}
