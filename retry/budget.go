package retry

import (
	"container/list"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Budget bounds how much retries may add to a provider's load, per key and for
// all calls that share it. A key starts with 10 tokens and a retry costs one;
// every successful call earns a tenth of one, and every 10 s bring one, so that
// an idle client may always retry a little. It never holds more than the
// greater of 10 and a tenth of the calls of the last second: what was earned
// in a good day does not pay for an hour's outage. So in a steady outage a
// retry in 10 s is left, and at a mixed failure rate the load stays within
// 1.1 times the calls.
//
// The zero value is ready. A Budget must not be copied.
type Budget struct {
	// MaxKeys bounds how many keys are remembered. At the bound, the oldest key
	// that stands as a new one would is forgotten; if none does, further keys
	// share one account. Zero: 4,096. Negative: no bound.
	MaxKeys int

	last atomic.Pointer[account] // most clients call one host

	mu       sync.Mutex
	accounts map[string]*list.Element // of *account
	order    list.List                // front: looked up last
	shared   [overflowAccounts]account
	seed     maphash.Seed
}

// NoBudget is the Budget that never runs out. It is only for callers whose
// retries something else bounds.
var NoBudget = new(Budget)

const (
	defaultMaxKeys   = 4096
	overflowAccounts = 8

	startTokens = 10
	oneToken    = 1 - 1e-9 // ten tenths are one, whatever floating point makes of them
	earned      = 0.1      // a success
	floorEvery  = 10 * time.Second
	capShare    = 0.1 // of the calls of the last second

	// The last second is kept in ticks. The one under way is not over, so that
	// eight of 125 ms cover between 875 ms and a second: never more.
	ticks    = 8
	tickSize = time.Second / ticks

	// sweep is how many of the oldest keys are looked at to find one to forget.
	sweep = 16
)

// Called counts a call that begins. Retries are not counted.
func (b *Budget) Called(key string, now time.Time) {
	if b != NoBudget {
		b.account(key, now).count(now)
	}
}

// Succeeded earns for a call that succeeded, at once or by a retry.
func (b *Budget) Succeeded(key string, now time.Time) {
	if b != NoBudget {
		b.account(key, now).success.Add(1)
	}
}

// Take pays for one retry of a call with this key, if it can.
func (b *Budget) Take(key string, now time.Time) bool {
	return b == NoBudget || b.account(key, now).take(now)
}

// Level returns how many tokens a key has. NoBudget has 10 for ever.
func (b *Budget) Level(key string, now time.Time) float64 {
	if b == NoBudget {
		return startTokens
	}
	return b.account(key, now).level(now)
}

func (b *Budget) account(key string, now time.Time) *account {
	if a := b.last.Load(); a != nil && a.key == key {
		return a
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.accounts[key]
	if !ok {
		if len(b.accounts) >= b.maxKeys() && !b.forget(now) {
			return &b.shared[maphash.String(b.seed, key)%overflowAccounts]
		}
		if b.accounts == nil {
			b.accounts = make(map[string]*list.Element)
		}
		a := new(account)
		a.open(key, now)
		e = b.order.PushFront(a)
		b.accounts[key] = e
	}
	b.order.MoveToFront(e)
	a := e.Value.(*account)
	b.last.Store(a)
	return a
}

func (b *Budget) maxKeys() int {
	switch {
	case b.MaxKeys == 0:
		return defaultMaxKeys
	case b.MaxKeys < 0:
		return math.MaxInt
	}
	return b.MaxKeys
}

// forget makes room for one key. Those of the oldest that are in use go to the
// front, so that a look at a few finds one sooner or later.
func (b *Budget) forget(now time.Time) bool {
	if b.seed == (maphash.Seed{}) {
		b.seed = maphash.MakeSeed()
		for i := range b.shared {
			b.shared[i].open("", now)
		}
	}
	for range min(sweep, b.order.Len()) {
		e := b.order.Back()
		a := e.Value.(*account)
		if a.isFresh(now) {
			b.order.Remove(e)
			delete(b.accounts, a.key)
			b.last.CompareAndSwap(a, nil)
			return true
		}
		b.order.MoveToFront(e)
	}
	return false
}
