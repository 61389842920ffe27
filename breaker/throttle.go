package breaker

import (
	lru "container/list"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Throttle sends a provider that refuses part of the calls little more than
// it accepts, where a [Breaker] would send it nothing at all. It is the client
// end of "adaptive throttling" (Beyer et al., Site Reliability Engineering,
// chapter 21). Over the last Window, for each key, it counts the calls asked
// for, those that it refused itself included, and those that were accepted. A
// call is refused here, by chance, with a probability of
//
//	           asked − K × accepted
//	max(0, ──────────────────────────)     at most MaxReject
//	               asked + 1
//
// so that the provider gets K calls for each one it accepts, and no call is
// refused while it accepts at least one in K.
//
//	accepted   of 100 asked                        sent on
//	all        100, or as few as 50                all
//	30         in an overload                      60
//	none       in an outage                        10, which find out when it is over
//
// A call counts when it is over: Success is accepted, Failure, Unreachable and
// Throttled are not, and Neutral, which is what the caller gave up itself, does
// not count. So neither a slow provider nor a burst looks like a failing one.
//
// The zero value is ready. Fields must not change after first use, and a
// Throttle must not be copied then. Safe for concurrent use.
type Throttle struct {
	// K is how many calls may be sent for each one accepted. Less wastes less of
	// the provider's time and refuses sooner. Zero: 2. Less than 1: 1.
	K float64

	// Window is how far back calls count, in steps of a fortieth. Longer is
	// calmer, and slower to see that an outage is over. Zero or negative: 10 s.
	// More than an hour: an hour.
	Window time.Duration

	// MaxReject is the largest share of the calls that is refused. What is left
	// of them probes a provider that is down: with 1 hardly any does, and it
	// takes long to come back. Zero: 0.9. Negative: nothing is refused. More
	// than 1: 1.
	MaxReject float64

	// MinCalls is how many calls the window must hold before any is refused.
	// Zero: 20. Negative: 1.
	MinCalls int

	// PassEvery lets one call pass, whatever the share, if none has passed for
	// so long. Zero: 1 s. Negative: never.
	PassEvery time.Duration

	// MaxKeys bounds how many keys are known, at 400 bytes each and the key. At
	// the bound the one that was used least recently goes, if nothing in its
	// window was refused or failed; if none can go, further keys pass
	// unguarded, and Stats counts it. Zero: 4,096. Negative: no bound.
	MaxKeys int

	epoch atomic.Pointer[time.Time] // instants are nanoseconds from here

	mu      sync.Mutex // guards what follows
	last    *lru.Element
	byKey   map[string]*lru.Element // of *customer
	order   lru.List                // front: used last
	evicted uint64
	free    uint64 // unguarded calls
	refused uint64
}

// customer is what a Throttle keeps for one key. One that was forgotten while a
// call was under way only lives on for that call.
type customer struct {
	key string
	demand
}

// throttleLook is how many keys are looked at to find one that may go.
const throttleLook = 16

// ThrottleError refuses a call because too few of those before it were
// accepted. Nothing was sent.
type ThrottleError struct {
	Key   string
	Share float64 // of the calls with this key that are refused at present, over 0 and at most 1
}

// Error names the key and the share that is refused.
func (e *ThrottleError) Error() string {
	return fmt.Sprintf("breaker: %q accepts too few calls, %.0f %% of them are not sent at present", e.Key, 100*e.Share)
}

// Refused reports true: this client itself did not send the call.
func (e *ThrottleError) Refused() bool { return true }

// ThrottleStats are counts since the Throttle's first use, but for Keys.
type ThrottleStats struct {
	Keys      int    // known now
	Evicted   uint64 // keys forgotten to make room
	Unguarded uint64 // calls let pass uncounted because MaxKeys were in use
	Refused   uint64 // calls
}

// Stats returns the counts.
func (t *Throttle) Stats() ThrottleStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return ThrottleStats{Keys: len(t.byKey), Evicted: t.evicted, Unguarded: t.free, Refused: t.refused}
}

// Share is which part of the calls with this key is refused at now, 0 to 1. It
// changes nothing. A zero now reads the clock.
func (t *Throttle) Share(key string, now time.Time) float64 {
	at := t.since(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.find(key)
	if c == nil {
		return 0
	}
	return t.share(c, at)
}

// Acquire lets a call pass, or refuses it with a [*ThrottleError]. The caller
// calls done exactly once, when it knows how the call went; defer it, so that
// it runs also when the call panics. A second call of done does nothing.
func (t *Throttle) Acquire(key string) (done func(Outcome), err error) {
	p, err := t.Enter(key, time.Time{}, rand.Float64())
	if err != nil {
		return nil, err
	}
	var once atomic.Bool
	return func(o Outcome) {
		if !once.Swap(true) {
			p.Done(o, time.Time{})
		}
	}, nil
}

// Enter is [Throttle.Acquire] at a given instant and with a given number drawn
// evenly from [0, 1): the call is refused if that is less than the share. The
// same instants and numbers give the same answers. A zero now reads the clock.
func (t *Throttle) Enter(key string, now time.Time, draw float64) (Pass, error) {
	c, err := t.ask(key, t.since(now), draw, true)
	return Pass{t, c}, err
}

// Check refuses a call as Enter would and counts it then, but takes nothing
// otherwise. It is for callers that have to wait before they may send: Check
// before the wait, which is then not in vain, and Enter after it, with the same
// number, so that the call has one chance and not two.
func (t *Throttle) Check(key string, now time.Time, draw float64) error {
	_, err := t.ask(key, t.since(now), draw, false)
	return err
}

func (t *Throttle) ask(key string, at int64, draw float64, enters bool) (*customer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.find(key)
	if c == nil {
		if !enters {
			return nil, nil
		}
		if c = t.add(key, at); c == nil {
			t.free++
			return nil, nil
		}
	}
	share, every := t.share(c, at), t.passEvery()
	if draw < share && (every < 0 || at < c.due) {
		c.count(false)
		t.refused++
		return nil, &ThrottleError{Key: key, Share: share}
	}
	if enters && every >= 0 {
		c.due = after(at, every)
	}
	return c, nil
}

// A Pass lets one call go. The zero Pass stands for a call that nobody counts;
// its Done does nothing.
type Pass struct {
	throttle *Throttle
	customer *customer
}

// Done reports how the call went. It is called once; what never reports is not
// counted, and nothing waits for it. A zero now reads the clock.
func (p Pass) Done(o Outcome, now time.Time) {
	if p.customer == nil || o == Neutral {
		return
	}
	t := p.throttle
	at := t.since(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	p.customer.moveTo(at, t.width())
	p.customer.count(o == Success)
}

// share is which part of the calls of c to refuse. The lock is held.
func (t *Throttle) share(c *customer, at int64) float64 {
	c.moveTo(at, t.width())
	return c.demand.share(t.k(), t.maxReject(), t.minCalls())
}

// find finds a key and notes that it was used. The lock is held.
func (t *Throttle) find(key string) *customer {
	e := t.last
	if e == nil || e.Value.(*customer).key != key {
		if e = t.byKey[key]; e == nil {
			return nil
		}
		t.order.MoveToFront(e)
		t.last = e
	}
	return e.Value.(*customer)
}

// add makes a new key known, if there is room. The lock is held.
func (t *Throttle) add(key string, at int64) *customer {
	if most := t.maxKeys(); most > 0 && len(t.byKey) >= most && !t.makeRoom(at) {
		return nil
	}
	if t.byKey == nil {
		t.byKey = make(map[string]*lru.Element)
	}
	c := &customer{key: key}
	t.last = t.order.PushFront(c)
	t.byKey[key] = t.last
	return c
}

// makeRoom forgets a key. Those among the oldest that still matter go to the
// front, so that a look at a few finds one sooner or later.
func (t *Throttle) makeRoom(at int64) bool {
	for range min(throttleLook, t.order.Len()) {
		e := t.order.Back()
		c := e.Value.(*customer)
		if c.moveTo(at, t.width()); c.isFresh() {
			t.order.Remove(e)
			delete(t.byKey, c.key)
			if t.last == e {
				t.last = nil
			}
			t.evicted++
			return true
		}
		t.order.MoveToFront(e)
	}
	return false
}

// since is the instant of now, which carries a monotonic reading.
func (t *Throttle) since(now time.Time) int64 {
	epoch := t.epoch.Load()
	if epoch == nil {
		first := time.Now()
		t.epoch.CompareAndSwap(nil, &first)
		epoch = t.epoch.Load()
	}
	if now.IsZero() {
		return int64(time.Since(*epoch))
	}
	return int64(now.Sub(*epoch))
}

func (t *Throttle) k() float64 {
	if t.K == 0 {
		return 2
	}
	return max(1, t.K)
}

// longestWindow is so short that no count in a cell runs over.
const longestWindow = time.Hour

// width is of a cell.
func (t *Throttle) width() int64 {
	if t.Window <= 0 {
		return int64(10*time.Second) / demandCells
	}
	return max(1, min(int64(t.Window), int64(longestWindow))/demandCells)
}

func (t *Throttle) maxReject() float64 {
	if t.MaxReject == 0 {
		return 0.9
	}
	return max(0, min(1, t.MaxReject))
}

func (t *Throttle) minCalls() int64 {
	if t.MinCalls == 0 {
		return 20
	}
	return int64(max(1, t.MinCalls))
}

func (t *Throttle) passEvery() time.Duration {
	if t.PassEvery == 0 {
		return time.Second
	}
	return t.PassEvery
}

func (t *Throttle) maxKeys() int {
	if t.MaxKeys == 0 {
		return 4096
	}
	return t.MaxKeys
}
