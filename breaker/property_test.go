package breaker

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/quick"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// randomBreaker has small numbers, so that everything happens often.
func randomBreaker(r *rand.Rand) *Breaker {
	b := &Breaker{
		Failures:        []int{-1, 0, 1, 2, 3}[r.IntN(5)],
		UnreachableOnly: r.IntN(4) == 0,
		OpenFor:         time.Duration(1+r.IntN(5)) * time.Second,
		MaxOpenFor:      time.Duration(r.IntN(20)) * time.Second,
		Probes:          r.IntN(4),
		ProbeTimeout:    time.Duration(1+r.IntN(8)) * time.Second,
		random:          newRand(r.Uint64()).Float64, // under the lock
	}
	if r.IntN(2) == 0 || b.Failures < 0 {
		b.FailureRate, b.MinCalls, b.Window = r.Float64(), 1+r.IntN(10), time.Duration(1+r.IntN(20))*time.Second
	}
	if r.IntN(4) == 0 {
		b.SlowCall = time.Duration(1+r.IntN(6)) * time.Second
	}
	return b
}

var allOutcomes = []Outcome{Success, Failure, Unreachable, Throttled, Neutral}

// One goroutine plays many callers: calls enter, end late, end twice, are
// cancelled, panic, or never end, while time passes.
func TestRandomInterleavings(t *testing.T) {
	type outstanding struct {
		p     Permit
		state State // it entered in
		era   int   // and the number of changes until then
		at    time.Time
	}
	play := func(seed uint64) (ok bool) {
		synctest.Test(t, func(t *testing.T) {
			r := newRand(seed)
			b := randomBreaker(r)
			var mu sync.Mutex // timers of slow calls change it too
			state, changes := Closed, 0
			seen := func() (State, int) {
				mu.Lock()
				defer mu.Unlock()
				return state, changes
			}
			b.OnChange = func(_ string, from, to State) {
				mu.Lock()
				defer mu.Unlock()
				next := map[State][]State{Closed: {Open}, Open: {HalfOpen}, HalfOpen: {Open, Closed}}
				assert.Equal(t, state, from)
				assert.Contains(t, next[from], to)
				state, changes = to, changes+1
			}
			type view struct {
				state   State
				changes int
				left    time.Duration
			}
			look := func() view {
				left, open := b.Open(host, time.Time{})
				require.Equal(t, open, left > 0)
				state, changes := seen()
				return view{state, changes, left}
			}
			var calls []outstanding
			probesOut := func() (n int) {
				_, changes := seen()
				for _, c := range calls {
					if c.state != Closed && c.era == changes && time.Since(c.at) < b.ProbeTimeout {
						n++
					}
				}
				return n
			}
			for range 400 {
				synctest.Wait()
				switch r.IntN(6) {
				case 0, 1:
					before := look()
					p, err := b.Enter(host, time.Time{})
					if err != nil {
						require.NotEqual(t, Closed, before.state)
						require.Equal(t, before.left, err.(*OpenError).RetryAfter)
						require.Equal(t, before, look(), "a refusal changes nothing")
						continue
					}
					require.Zero(t, before.left)
					state, changes := seen()
					calls = append(calls, outstanding{p, state, changes, time.Now()})
					require.LessOrEqual(t, probesOut(), 1)
				case 2, 3: // one ends, in any order
					if len(calls) == 0 {
						continue
					}
					i := r.IntN(len(calls))
					c := calls[i]
					calls = append(calls[:i], calls[i+1:]...)
					o, told := allOutcomes[r.IntN(5)], time.Duration(r.IntN(3))*10*time.Second
					before := look()
					func() {
						defer func() { _ = recover() }()
						defer func() { c.p.Done(o, told, time.Time{}) }()
						if r.IntN(4) == 0 {
							o = Neutral
							panic("in the call")
						}
					}()
					after := look()
					if c.era != before.changes {
						require.Equal(t, before, after, "a late result changes nothing")
					}
					if o == Neutral {
						require.Equal(t, before.state, after.state)
					}
					if c.p.call != nil { // twice
						c.p.Done(allOutcomes[r.IntN(5)], 0, time.Time{})
						require.Equal(t, after, look())
					}
					if told > 0 && after.changes > before.changes && after.state == Open {
						require.GreaterOrEqual(t, after.left, told)
						require.LessOrEqual(t, after.left, max(22*time.Second, b.maxOpenFor()))
					}
				case 4:
					time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
				case 5: // exactly until it may be asked again
					left, open := b.Open(host, time.Time{})
					if !open {
						continue
					}
					if state, _ := seen(); state == Open {
						time.Sleep(left - tick)
						requireAsksOpen(t, b, host, true)
						time.Sleep(tick)
						requireAsksOpen(t, b, host, false)
					} else {
						time.Sleep(left)
					}
				}
			}
			// All that are out stay out for good: no place is lost with them.
			if state, _ := seen(); state != Closed {
				time.Sleep(b.ProbeTimeout + 100*time.Second)
				for range b.probes() {
					requireAsksOpen(t, b, host, false)
					do(t, b, host, Success)
				}
				state, _ := seen()
				require.Equal(t, Closed, state)
			}
			time.Sleep(b.SlowCall) // timers of calls that never ended
		})
		return !t.Failed()
	}
	config := &quick.Config{MaxCount: 300}
	if raceEnabled {
		config.MaxCount = 60
	}
	require.NoError(t, quick.Check(play, config))
}

// Many goroutines at once, under the race detector.
func TestConcurrentCallers(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			b := randomBreaker(newRand(seed))
			b.random, b.ProbeTimeout, b.SlowCall = nil, time.Hour, 0
			var last atomic.Int32
			b.OnChange = func(_ string, from, to State) {
				if State(last.Swap(int32(to))) != from {
					t.Error("changes out of order")
				}
			}
			var all sync.WaitGroup
			var probes atomic.Int64
			for g := range uint64(100) {
				all.Go(func() {
					r := newRand(seed<<32 | g)
					for range 100 {
						time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
						p, err := b.Enter(host, time.Time{})
						if err != nil {
							continue
						}
						probe := p.era.state == HalfOpen
						if probe && probes.Add(1) > 1 {
							t.Error("two probes out")
						}
						time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
						if probe {
							probes.Add(-1)
						}
						p.Done(allOutcomes[r.IntN(5)], 0, time.Time{})
					}
				})
			}
			all.Wait()
			if left, open := b.Open(host, time.Time{}); open {
				time.Sleep(left)
			}
			assert.Zero(t, probes.Load())
			requireAsksOpen(t, b, host, false)
		})
	}
}

// Any configuration, outcomes and stamps at all: nothing panics, and what
// remains is in bounds.
func TestAnyInput(t *testing.T) {
	play := func(failures, minCalls, probes, maxKeys int, rate float64, window, slow, openFor, maxOpenFor, probeTimeout int64, told []int64, steps []int64) bool {
		b := &Breaker{
			Failures: failures, FailureRate: rate, MinCalls: minCalls, Probes: probes, MaxKeys: maxKeys,
			Window: time.Duration(window), OpenFor: time.Duration(openFor), MaxOpenFor: time.Duration(maxOpenFor),
			ProbeTimeout: time.Duration(probeTimeout),
		}
		now := time.Now()
		for i, step := range steps {
			now = now.Add(time.Duration(step))
			if now.IsZero() {
				continue
			}
			p, err := b.Enter(host, now)
			if refused(err) {
				if err.(*OpenError).RetryAfter <= 0 {
					return false
				}
				continue
			}
			var wait time.Duration
			if len(told) > 0 {
				wait = time.Duration(told[i%len(told)])
			}
			p.Done(Outcome(i%7-1), wait, now)
			if left, open := b.Open(host, now); open != (left > 0) {
				return false
			}
		}
		return true
	}
	require.NoError(t, quick.Check(play, nil))
}

// A clock that jumps back, as from outside a bubble into it, does not keep a
// circuit open for years, nor the place of a probe or a failure.
func TestAnotherClock(t *testing.T) {
	b := exact(&Breaker{Failures: 1, OpenFor: 10 * time.Second, ProbeTimeout: 5 * time.Second})
	now := time.Now().Round(0)
	p, _ := b.Enter(host, now)
	p.Done(Failure, 0, now)

	now = now.Add(-100 * time.Hour)
	_, err := b.Enter(host, now)
	require.True(t, refused(err))
	left, open := b.Open(host, now.Add(4*time.Second))
	require.True(t, open)
	require.Equal(t, 6*time.Second, left)

	now = now.Add(-26 * 365 * 24 * time.Hour)
	left, open = b.Open(host, now)
	require.True(t, open)
	require.Equal(t, 10*time.Second, left)
	_, err = b.Enter(host, now.Add(10*time.Second-1))
	require.True(t, refused(err))
	now = now.Add(10 * time.Second)
	_, err = b.Enter(host, now)
	require.NoError(t, err)

	now = now.Add(-time.Hour)
	left, open = b.Open(host, now)
	require.True(t, open)
	require.Equal(t, 5*time.Second, left)
	left, open = b.Open(host, now.Add(time.Second))
	require.True(t, open)
	require.Equal(t, 4*time.Second, left)
	_, open = b.Open(host, now.Add(5*time.Second))
	require.False(t, open)

	b = exact(&Breaker{Failures: -1, FailureRate: 0.5, MinCalls: 2})
	p, _ = b.Enter(host, now)
	p.Done(Failure, 0, now)
	now = now.Add(-time.Hour)
	p, _ = b.Enter(host, now)
	p.Done(Failure, 0, now)
	require.Equal(t, Closed, b.stateOf(host))

	// A stamp taken before a wait is no other clock.
	b = exact(&Breaker{Failures: 1})
	p, _ = b.Enter(host, now)
	p.Done(Failure, 0, now)
	left, _ = b.Open(host, now.Add(-30*time.Second))
	require.Equal(t, 30*time.Second, left)
	left, _ = b.Open(host, now)
	require.Equal(t, 30*time.Second, left)
}
