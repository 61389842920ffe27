// Package breaker stops calling what is down, and finds out gently when it is
// up again.
//
// A [Breaker] keeps one circuit per key, which for HTTP is scheme://host:port.
// A circuit is in one of three states:
//
//	           a run of failures, or their share of the window
//	┌──────────┐ ──────────────────────────────────► ┌──────────┐
//	│  Closed  │                                     │   Open   │
//	│ all pass │          ┌────────────────────────► │ none does│
//	└──────────┘          │ a probe fails: the next  └──────────┘
//	     ▲                │ period is up to twice         │ the period is over
//	     │                │ as long                       │ and a call comes
//	     │         ┌─────────────┐                        │
//	     └──────── │  Half-open  │ ◄──────────────────────┘
//	       Probes  │ one call at │
//	     successes │   a time    │
//	               └─────────────┘
//
// A call says how it went by one of five outcomes:
//
//	outcome      such as                             while closed     as a probe
//	Success      an answer in time, any 4xx too      ends the run     counts towards Probes
//	Failure      500, 502, 504                       a failure        opens again
//	Unreachable  dial, TLS, reset, no answer at all  a failure        opens again
//	Throttled    429, 503 with a told wait           nothing          opens again, at least as told
//	Neutral      the caller gave up                  nothing          gives its place back
//	(slow)       no outcome after SlowCall           a failure, then  opens again, then
//
// With UnreachableOnly a Failure neither adds to the run nor ends it. Where
// FailureRate is set it still counts in the share, and fails a probe; where it is
// not, it counts for nothing, and a probe that ends so has succeeded.
//
// Which verb: [Breaker.Acquire] is for most callers,
//
//	done, err := b.Acquire(key)
//	if err != nil {
//		return err // an *OpenError, which says for how long
//	}
//	outcome := breaker.Neutral
//	defer func() { done(outcome) }() // also if call panics or exits the goroutine
//	outcome = judge(call())
//
// [Breaker.Enter] is the same without allocation and with a given time, and
// [Breaker.Open] asks without taking anything: ask before a wait, enter after
// it, so that no wait holds the place of a probe.
//
// # Breaker or Throttle
//
// A circuit answers yes or no for all calls, which suits a host that is down: it
// is left alone. Of a host that is overloaded and refuses half of the calls, a
// circuit that opens makes one that refuses all. A [Throttle] keeps back only
// what is refused anyway:
//
//	                    Breaker                       Throttle
//	is for              down: nothing comes back      overloaded: a part is refused
//	looks at            failures in a row, or share   accepted of asked, over 10 s
//	half is refused     open, or not at all           nothing is kept back
//	nine in ten are     open                          twice of what is accepted is sent
//	all are             one probe at a time           a tenth is sent
//	well again          at the next probe             in 10 to 20 s
//	keeps back          all, until a known instant    by chance, so retries are of no use
//
// Both may be used together, under the same key.
//
// # What is guaranteed
//
//   - One probe is out at a time. One that never reports frees its place after
//     ProbeTimeout, so a circuit cannot get stuck; what it reports after its
//     place went to another call changes nothing.
//   - A call that started in an earlier state changes nothing when it ends.
//   - Time is monotonic: steps of the wall clock neither shorten nor lengthen an
//     open period. Times are half-open: at OpenFor exactly a probe may leave.
//   - How long a circuit stays open is drawn evenly from the upper half of the
//     period, so that a fleet which lost its provider at one instant does not
//     probe it at one instant ("equal jitter" in AWS, Exponential Backoff And
//     Jitter). A told wait is lengthened by up to a tenth, never shortened; what
//     is told beyond an hour counts as an hour, and then one call tries.
//   - Memory is bounded by MaxKeys. At the bound the circuit that was idle
//     longest goes, one without counted failures first. Open circuits, probes
//     and keys with calls in flight never go, but an open circuit that nobody
//     came to probe for as long again as it may stay open is forgotten. When
//     nothing can go, further keys pass unguarded, and [Stats] counts it.
//   - OnChange is called outside every lock, in the order of the changes, and
//     may use the Breaker.
//   - There are no goroutines. A timer exists only per call in flight, and only
//     with SlowCall.
//   - A Throttle refuses nothing while at least one call in K is accepted. It
//     counts no call that was refused elsewhere in this program, or given up by
//     its caller.
package breaker

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Breaker guards any number of keys. The zero value opens a circuit for 30 s
// after five failures in a row. Fields must not change after first use, and a
// Breaker must not be copied then.
type Breaker struct {
	// Failures in a row that open a circuit. Zero: 5. Negative: a run of
	// failures never opens.
	Failures int

	// UnreachableOnly makes Failures count Unreachable ones alone. A Failure
	// among them does not end the run; a Success does.
	UnreachableOnly bool

	// FailureRate opens a circuit when this share of the calls of the last
	// Window failed, of at least MinCalls: 0.5 is half, and exactly half opens.
	// Throttled and Neutral ones are not counted. Zero or negative: off.
	FailureRate float64

	// MinCalls is how many calls the window must hold before FailureRate is
	// looked at. Zero: 20. Negative: 1.
	MinCalls int

	// Window is how far FailureRate looks back, in steps of a tenth. Zero: 10 s.
	// Negative: FailureRate is off.
	Window time.Duration

	// SlowCall is how long a call may take. It counts as a failure at the moment
	// it gets slower, before it ends, and then not again. Under UnreachableOnly
	// it counts in the FailureRate alone. Zero or negative: off.
	SlowCall time.Duration

	// OpenFor is how long a circuit stays open, see the package comment for the
	// jitter. Zero or negative: 30 s.
	OpenFor time.Duration

	// MaxOpenFor bounds the growth: every failed probe doubles the next open
	// period up to this; a circuit that closes starts at OpenFor again. Zero,
	// negative or less than OpenFor: no growth.
	MaxOpenFor time.Duration

	// Probes is how many calls must succeed, one after the other, to close a
	// half-open circuit. Zero or negative: 1.
	Probes int

	// ProbeTimeout frees the place of a probe that has not reported. Let it be
	// longer than a call may take, or slow probes give no verdict. Zero: 30 s.
	// Negative: never, so that a lost probe blocks its circuit for good.
	ProbeTimeout time.Duration

	// MaxKeys bounds how many circuits there are. Zero: 4,096. Negative: no bound.
	MaxKeys int

	// OnChange, unless nil, is told of every change of state. It is called by
	// one goroutine at a time, outside every lock, and should return soon: no
	// call waits for it but the one that made the change. A change that another
	// call makes meanwhile is told by the same goroutine, next.
	OnChange func(key string, from, to State)

	last   atomic.Pointer[circuit]             // most clients call one host
	recent [recentKeys]atomic.Pointer[circuit] // keys used lately; both are found without the lock
	epoch  atomic.Pointer[time.Time]           // instants are nanoseconds from here

	mu   sync.Mutex // guards what follows, and every change of state
	keys table
	news changes

	listeners []func(key string, from, to State) // beside OnChange; never removed

	random func() float64 // in [0, 1); nil: math/rand
}

// Notify adds one more function that is told of every change of state, after
// OnChange and in the same way. It stays as long as the Breaker does. It is for
// an owner that shares the Breaker with others; a program sets OnChange.
func (b *Breaker) Notify(told func(key string, from, to State)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, told)
}

// Stats are counts since the Breaker's first use.
type Stats struct {
	Keys      int    // circuits kept now
	NotClosed int    // of these open or half-open
	Evicted   uint64 // circuits forgotten to make room
	Unguarded uint64 // calls let pass without a circuit because MaxKeys were in use
}

// Stats returns the counts.
func (b *Breaker) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{
		Keys: len(b.keys.byKey), NotClosed: b.keys.held.n,
		Evicted: b.keys.evicted, Unguarded: b.keys.unguarded,
	}
}

// Open reports whether a call with this key would be refused, and how soon it
// is worth to ask again. It takes nothing and changes no state.
//
// While a probe is out it reports true. What remains then is how long the probe
// may still keep its place, or OpenFor if that is less: by then the circuit has
// most likely closed, or opened for longer.
//
// A zero now reads the clock, unless the circuit is closed.
func (b *Breaker) Open(key string, now time.Time) (remaining time.Duration, open bool) {
	for {
		c := b.find(key)
		if c == nil {
			return 0, false
		}
		e := c.era.Load()
		switch {
		case e == nil: // forgotten since
			continue
		case e.state == Closed:
			return 0, false
		}
		t := b.since(now)
		if e.state == Open && !e.before(t) {
			left := max(0, e.left(t))
			return left, left > 0
		}
		b.mu.Lock()
		e = b.current(c, t)
		if e == nil || e.state == Closed {
			b.mu.Unlock()
			continue
		}
		left := b.blocked(e, t)
		b.mu.Unlock()
		return left, left > 0
	}
}

// Acquire lets a call pass, or refuses it with an [*OpenError]. The caller
// calls done exactly once, when it knows how the call went; defer it, so that
// it runs also when the call panics. A second call of done does nothing.
func (b *Breaker) Acquire(key string) (done func(Outcome), err error) {
	p, err := b.Enter(key, time.Time{})
	if err != nil {
		return nil, err
	}
	var once atomic.Bool
	return func(o Outcome) {
		if !once.Swap(true) {
			p.Done(o, 0, time.Time{})
		}
	}, nil
}

// Enter is [Breaker.Acquire] without allocation on the path of a closed
// circuit. A zero now reads the clock only if it must.
func (b *Breaker) Enter(key string, now time.Time) (Permit, error) {
	if c := b.recall(key); c != nil {
		e := c.era.Load()
		switch {
		case e == nil:
		case e.state == Closed && b.SlowCall <= 0:
			if !c.used.Load() {
				c.used.Store(true)
			}
			if c.admit(e) {
				return Permit{era: e}, nil
			}
		case e.state == Open:
			// An open circuit refuses without the lock: this is the path that
			// is hot while a provider is down.
			if t := b.since(now); e.left(t) > 0 && !e.before(t) {
				return Permit{}, &OpenError{Key: key, RetryAfter: e.left(t)}
			}
		}
	}
	return b.enter(key, now)
}

// enter is Enter under the lock, for every state.
func (b *Breaker) enter(key string, now time.Time) (Permit, error) {
	b.mu.Lock()
	c := b.keys.byKey[key]
	switch {
	case c != nil:
		c.used.Store(true)
	default:
		if c = b.add(key, now); c == nil {
			b.mu.Unlock()
			return Permit{}, nil
		}
	}
	b.remember(c)
	e := c.era.Load()
	if e.state == Closed {
		e.join()
		b.mu.Unlock()
		return b.watch(e, nil, now), nil
	}
	t := b.since(now)
	e = b.current(c, t)
	if left := b.blocked(e, t); left > 0 {
		b.mu.Unlock()
		return Permit{}, &OpenError{Key: c.key, RetryAfter: left}
	}
	if e.state == Open {
		e = b.change(c, &era{state: HalfOpen})
	}
	p := &call{at: t}
	b.take(e, p, t)
	b.unlock()
	return b.watch(e, p, now), nil
}

// since is the instant of now. The epoch is per Breaker and taken from the
// clock, so that it carries a monotonic reading.
func (b *Breaker) since(now time.Time) int64 {
	epoch := b.epoch.Load()
	if epoch == nil {
		first := time.Now()
		b.epoch.CompareAndSwap(nil, &first)
		epoch = b.epoch.Load()
	}
	if now.IsZero() {
		return int64(time.Since(*epoch))
	}
	return int64(now.Sub(*epoch))
}

func (b *Breaker) chance() float64 {
	if b.random != nil {
		return b.random()
	}
	return rand.Float64()
}

func (b *Breaker) failures() int64 {
	if b.Failures == 0 {
		return 5
	}
	return int64(b.Failures)
}

// window is zero if there is no FailureRate.
func (b *Breaker) window() time.Duration {
	switch {
	case !(b.FailureRate > 0) || b.Window < 0:
		return 0
	case b.Window == 0:
		return 10 * time.Second
	}
	return min(b.Window, mostWindow)
}

func (b *Breaker) minCalls() int64 {
	if b.MinCalls == 0 {
		return 20
	}
	return int64(max(1, b.MinCalls))
}

// slowAfter is zero where a slow call would count for nothing.
func (b *Breaker) slowAfter() time.Duration {
	if b.SlowCall <= 0 || b.UnreachableOnly && b.window() == 0 {
		return 0
	}
	return b.SlowCall
}

func (b *Breaker) openFor() time.Duration {
	if b.OpenFor <= 0 {
		return 30 * time.Second
	}
	return b.OpenFor
}

func (b *Breaker) maxOpenFor() time.Duration { return max(b.openFor(), b.MaxOpenFor) }

func (b *Breaker) probes() int { return max(1, b.Probes) }

func (b *Breaker) probeTimeout() time.Duration {
	if b.ProbeTimeout == 0 {
		return 30 * time.Second
	}
	return b.ProbeTimeout
}

func (b *Breaker) maxKeys() int {
	if b.MaxKeys == 0 {
		return 4096
	}
	return b.MaxKeys
}
