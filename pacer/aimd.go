package pacer

import "time"

// aimd is how many calls may be in flight, learnt from what they come to: it
// adds one for each round trip that went well, and takes a tenth away where
// calls are dropped (Chiu, Jain: "Analysis of the increase and decrease
// algorithms for congestion avoidance", 1989; of latency, which a client far
// away cannot tell from its own network's, it knows nothing). It is a pure rule
// of what happens and when; the lock of its line guards it.
//
//	limit
//	 │        ╱│      ╱│      ╱      each round trip +1, if at least half was used
//	 │       ╱ │    ╱  │    ╱
//	 │      ╱  ╰──╯    ╰──╯          dropped: × 0.9, once for all that were in flight
//	 │    ╱
//	 │__╱                            before the first drop: doubles
//	 └─────────────────────────► round trips
//
// A round trip is over when as many calls were answered as were out at its
// begin, and one more: answers are taken to come in the order of their calls.
// So it needs no clock and nothing for each call.
type aimd struct {
	most   float64
	limit  float64
	steady bool  // a call was dropped: it doubles no more
	used   bool  // at least half of the limit was, in this round trip
	out    int   // calls that left and had no answer yet, for all we know
	round  int   // of these, left before this round trip began
	stale  int   // and before the last cut
	last   int64 // when a call left
}

const (
	aimdFirst   = 20
	aimdMost    = 200
	aimdCut     = 0.9
	aimdForgets = int64(5 * time.Minute) // without a call: as new
)

// newAIMD begins with the smaller of 20 and most; zero: 200.
func newAIMD(most int) *aimd {
	if most <= 0 {
		most = aimdMost
	}
	return &aimd{most: float64(most), limit: float64(min(most, aimdFirst))}
}

// max is the limit, at least 1.
func (a *aimd) max() int { return int(a.limit) }

// left notes that a call left, so that so many are in flight.
func (a *aimd) left(now int64, inFlight int) {
	if inFlight == 1 && now >= later(a.last, aimdForgets) {
		*a = *newAIMD(int(a.most))
	}
	a.last = now
	a.out = min(a.out+1, inFlight)
	a.used = a.used || 2*inFlight >= a.max()
}

// heard notes that a call was dropped, or answered in any other way that shows
// that there was room for it. It is in flight still.
func (a *aimd) heard(inFlight int, dropped bool) {
	a.out = max(0, a.out-1)
	old, over := a.stale > 0, a.round == 0
	a.stale, a.round = max(0, a.stale-1), max(0, a.round-1)
	switch {
	case dropped && !old:
		a.limit = max(1, aimdCut*a.limit)
		a.steady, a.used = true, false
		a.stale, a.round = a.out, a.out
	case !dropped && over:
		switch {
		case !a.used:
		case a.steady:
			a.limit++
		default:
			a.limit *= 2
		}
		a.limit = min(a.limit, a.most)
		a.round, a.used = a.out, 2*inFlight >= a.max()
	}
}

// ended notes that a call is over, heard or not, so that so many are left.
func (a *aimd) ended(inFlight int) {
	a.out = min(a.out, inFlight)
	a.round, a.stale = min(a.round, a.out), min(a.stale, a.out)
}

// fresh is from when on it equals a new one, if no call leaves before.
func (a *aimd) fresh() int64 {
	if !a.steady && a.limit == min(a.most, aimdFirst) {
		return 0
	}
	return later(a.last, aimdForgets)
}

// Adapt tells a Pacer with AdaptInFlight what a call of key came to: dropped,
// which is an answer of 429 or 503 or none in time, or accepted. It is to be
// called once for each of these, before release; not for what this client
// refused itself, what the caller gave up, and any failure that says nothing
// about room, such as a refused connection or a status of 500.
func (p *Pacer) Adapt(key string, dropped bool) {
	if !p.AdaptInFlight {
		return
	}
	r := p.lock()
	defer r.mu.Unlock()
	l := p.known(key)
	if l == nil || l.inFlight == 0 {
		return
	}
	l.aimd.heard(l.inFlight, dropped)
	if l.calls() > 0 && !l.full() {
		r.wakeLine(l, time.Now())
	}
}

// InFlight returns how many calls of key are between Wait and release, and how
// many may be at present. Without MaxInFlight and AdaptInFlight both are zero.
func (p *Pacer) InFlight(key string) (calls, limit int) {
	if !p.bounded() {
		return 0, 0
	}
	r := p.lock()
	defer r.mu.Unlock()
	l := p.known(key)
	switch {
	case l != nil:
		return l.inFlight, l.maxInFlight()
	case p.AdaptInFlight:
		return 0, newAIMD(p.MaxInFlight).max()
	}
	return 0, p.MaxInFlight
}

// bounded tells whether calls in flight are counted.
func (p *Pacer) bounded() bool { return p.MaxInFlight > 0 || p.AdaptInFlight }

// maxInFlight is how many calls may be in flight, if that is bounded.
func (l *line) maxInFlight() int {
	if l.aimd != nil {
		return l.aimd.max()
	}
	return l.pacer.MaxInFlight
}
