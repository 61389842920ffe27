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

	// recent counts the calls of the last second, a word a tick:
	//
	//	tick number, 24 bits │ failures, 20 bits │ successes, 20 bits
	//
	// so that a success costs one atomic addition. A tick number comes back
	// after 24 days, which at worst raises the ceiling for a second.
	recent [ticks]atomic.Uint64

	mu       sync.Mutex
	tokens   float64
	settled  time.Time     // when tokens were worked out
	credited [ticks]uint32 // the successes of each tick that tokens hold
}

const (
	oneSuccess = uint64(1)
	oneFailure = uint64(1) << 20
	countMask  = 1<<20 - 1
	tickShift  = 40
	tickMask   = 1<<24 - 1
)

// open makes a new account, which is full.
func (a *account) open(key string, now time.Time) {
	a.key, a.epoch, a.settled, a.tokens = key, now, now, startTokens
}

// count adds n, oneSuccess or oneFailure, to the tick of now.
func (a *account) count(n uint64, now time.Time) {
	tick := a.tick(now)
	word := &a.recent[tick%ticks]
	if word.Load()>>tickShift != tick {
		a.turn(tick)
	}
	// The tick may have been turned meanwhile; the call then counts for the
	// next one, which is as good.
	word.Add(n)
}

func (a *account) tick(now time.Time) uint64 {
	return uint64(now.Sub(a.epoch)/tickSize) & tickMask
}

// turn gives a word to a new tick. A tick that is not the word's own is a new
// one even if it is smaller: the clock of a test may begin again.
func (a *account) turn(tick uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := tick % ticks
	if a.recent[i].Load()>>tickShift == tick {
		return
	}
	old := a.recent[i].Swap(tick << tickShift)
	a.tokens += earned * float64(uint32(old&countMask)-a.credited[i])
	a.credited[i] = 0
}

// settle brings tokens up to now: what was earned, the floor, the ceiling.
func (a *account) settle(now time.Time) {
	for i := range a.recent {
		n := uint32(a.recent[i].Load() & countMask)
		a.tokens += earned * float64(n-a.credited[i])
		a.credited[i] = n
	}
	if passed := now.Sub(a.settled); passed > 0 {
		a.tokens += float64(passed) / float64(floorEvery)
	}
	a.settled = now
	a.clamp(now)
}

func (a *account) clamp(now time.Time) {
	a.tokens = min(a.tokens, max(startTokens, capShare*float64(a.calls(now))))
}

// calls counts those of the last second, or of the last seven eighths of it.
func (a *account) calls(now time.Time) (n uint64) {
	tick := a.tick(now)
	for i := range a.recent {
		v := a.recent[i].Load()
		if (tick-v>>tickShift)&tickMask < ticks {
			n += v&countMask + v>>20&countMask
		}
	}
	return n
}

// isFresh reports whether nothing would be lost if the account were forgotten.
func (a *account) isFresh(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle(now)
	return a.tokens >= startTokens && a.calls(now) == 0
}
