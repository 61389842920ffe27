package pacer

import (
	"math"
	"time"

	"github.com/politehttp/polite/headerparse"
)

// Once a limit was spent it is asked for more than it gives. From then on its
// units are dealt out: if all leave as soon as they are there, what follows is
// refused or waits for ever longer resets, and of several clients that share
// the limit one gets everything. The pace follows from what is left, and from
// the quota and window that the answers tell:
//
//	pace
//	3q/w ┤                ╭──────────  a window that begins is used up in time
//	     │            ╱
//	 q/w ┤- - - - ╱- - - - - - - - -   as much as a bucket of q/w gets back:
//	     │     ╱                       there its level stays, or for each of two
//	     │  ╱                          clients at half of that
//	     └────────┴───────────────► left
//	             √q
//
// One rule for windows, buckets and whatever else: nobody tells which of them
// the provider has, nor how many clients there are. It needs no memory of past
// answers, so an answer that is old misleads it for a moment only.
//
// A ration is a pure rule. It ends when at least half is left and nobody waits.
type ration struct {
	name   string
	quota  float64
	window float64 // nanoseconds

	left  float64 // as told last, but see tell
	told  int64   // when left was told...
	reset int64   // ...and when there is more
	debt  float64 // units that are out and may not be counted in left...
	at    int64   // ...at this instant; the window gives them back in time
	last  int64   // the latest departure...
	lastN int64   // ...and its units
}

const (
	rationPace    = 3           // the fastest, in q/w
	longestRation = time.Minute // a window; over a longer one the last tenth is spread, see spread
	guessedWindow = time.Second // the shortest to go by, where none is told
	maxRations    = 4           // of one line
)

// rations are those of one line. There is rarely more than one.
type rations []ration

// tell takes in what an answer says of a limit. Spent means that nothing is
// left, or less than was asked for; idle that nobody waits.
func (rs *rations) tell(now int64, m *headerparse.Limit, spent, idle bool) (changed bool) {
	for i := range *rs {
		r := &(*rs)[i]
		if r.name != m.Name {
			continue
		}
		if idle && m.Remaining >= m.Quota/2 {
			rs.end(i)
		} else {
			r.tell(now, m)
		}
		return true
	}
	window := m.Window
	if window <= 0 {
		window = max(m.Reset, guessedWindow)
	}
	if !spent || window > longestRation || len(*rs) == maxRations {
		return false
	}
	r := ration{name: m.Name, quota: m.Quota, window: float64(window), left: m.Remaining, told: now, reset: now, at: now, last: now}
	if m.Reset > 0 {
		r.reset = later(now, int64(m.Reset))
	}
	*rs = append(*rs, r)
	return true
}

// tell takes in what is left. Until the reset it grows as the window gives back
// and no faster: an answer that tells more was long on its way.
func (r *ration) tell(now int64, m *headerparse.Limit) {
	reset := r.reset
	if m.Reset > 0 {
		reset = later(now, int64(m.Reset))
	}
	left := m.Remaining
	if now < r.reset && reset-r.reset <= min(sameReset, int64(r.window/2)) {
		left = min(left, r.left+1+r.given(now-r.told))
	}
	r.debt, r.at = r.owed(now), now
	r.quota, r.left, r.told, r.reset = m.Quota, left, now, reset
}

// given is what the window gives in a time.
func (r *ration) given(ns int64) float64 { return float64(ns) * r.quota / r.window }

// soonest returns when n units may leave after ahead others. Those are taken to
// leave at the pace that the window can bear.
func (r *ration) soonest(now, ahead, n int64) int64 {
	pace := r.pace(now)
	at := max(now, after(r.last, float64(r.lastN)/pace))
	lack := float64(n) - r.left + r.debt // waited for, and then tried
	at = max(at, min(r.reset, after(r.at, lack*r.window/r.quota)))
	return after(at, float64(ahead)/max(pace, r.quota/r.window))
}

// pace is in units a nanosecond. With nothing left it is that of one unit.
func (r *ration) pace(now int64) float64 {
	level := max(1, r.left-r.owed(now))
	enough := min(math.Sqrt(r.quota), r.quota/rationPace)
	return r.quota / r.window * min(rationPace, level/enough)
}

// owed is the debt that is left.
func (r *ration) owed(now int64) float64 { return max(0, r.debt-r.given(now-r.at)) }

// take lets n units leave now.
func (rs rations) take(now, n int64) {
	for i := range rs {
		r := &rs[i]
		r.debt, r.at = r.owed(now)+float64(n), now
		r.last, r.lastN = now, n
	}
}

// answered notes that n units are no longer out.
func (rs rations) answered(now, n int64) {
	for i := range rs {
		r := &rs[i]
		r.debt, r.at = max(0, r.owed(now)-float64(n)), now
	}
}

func (rs rations) soonest(now, ahead, n int64) int64 {
	at := now
	for i := range rs {
		at = max(at, rs[i].soonest(now, ahead, n))
	}
	return at
}

// settle ends those of which nothing was heard for so long that all is back.
func (rs *rations) settle(now int64) {
	for i := len(*rs) - 1; i >= 0; i-- {
		if now >= (*rs)[i].ends() {
			rs.end(i)
		}
	}
}

func (rs *rations) end(i int) {
	if *rs = append((*rs)[:i], (*rs)[i+1:]...); len(*rs) == 0 {
		*rs = nil
	}
}

func (r *ration) ends() int64 { return later(max(r.told, r.reset), int64(r.window)) }

// fresh is when all have ended, if nothing happens before.
func (rs rations) fresh(now int64) int64 {
	for i := range rs {
		now = max(now, rs[i].ends())
	}
	return now
}
