package retry

import (
	"sync"
	"sync/atomic"
	"time"
)

// account is what a Budget holds for one key.
type account struct {
	key   string
	epoch time.Time // ticks count from here

	// recent counts the calls of the last second, a word a tick: its number in
	// the upper half, calls in the lower. So a call costs an atomic addition
	// when it begins, and another one when it succeeds.
	recent  [ticks]atomic.Uint64
	success atomic.Uint64

	mu       sync.Mutex
	tokens   float64
	settled  time.Time // when tokens were worked out
	credited uint64    // successes that tokens hold
}

// open makes a new account, which is full.
func (a *account) open(key string, now time.Time) {
	a.key, a.epoch, a.settled, a.tokens = key, now, now, startTokens
}

// count counts a call in the tick of now.
func (a *account) count(now time.Time) {
	tick := a.tick(now)
	word := &a.recent[tick%ticks]
	if old := word.Load(); old>>32 != tick {
		// A tick that is not the word's own is a new one even if it is smaller:
		// the clock of a test may begin again.
		word.CompareAndSwap(old, tick<<32)
	}
	word.Add(1)
}

func (a *account) tick(now time.Time) uint64 {
	return uint64(uint32(now.Sub(a.epoch) / tickSize))
}

// settle brings tokens up to now: what was earned, the floor, the ceiling.
func (a *account) settle(now time.Time) {
	n := a.success.Load()
	a.tokens += earned * float64(n-a.credited)
	a.credited = n
	if passed := now.Sub(a.settled); passed > 0 {
		a.tokens += float64(passed) / float64(floorEvery)
	}
	a.settled = now
	a.tokens = min(a.tokens, max(startTokens, capShare*float64(a.calls(now))))
}

// take pays for a retry, if it can.
func (a *account) take(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle(now)
	if a.tokens < oneToken {
		return false
	}
	a.tokens--
	return true
}

func (a *account) level(now time.Time) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle(now)
	return a.tokens
}

// calls counts those of the last second, or of the last seven eighths of it.
func (a *account) calls(now time.Time) (n uint64) {
	tick := a.tick(now)
	for i := range a.recent {
		v := a.recent[i].Load()
		if uint32(tick-v>>32) < ticks {
			n += v & (1<<32 - 1)
		}
	}
	return n
}

// isFresh reports whether nothing would be lost if the account were forgotten.
func (a *account) isFresh(now time.Time) bool {
	return a.level(now) >= startTokens && a.calls(now) == 0
}
