package rule

import (
	"fmt"
	"math"
	"math/bits"
)

// NewSlidingCounter estimates the units of the last window's length as those of
// this clock-aligned window, plus those of the one before in proportion to how
// much of it still lies within that length. It admits while the estimate is
// below quota before the last unit.
//
// State.B holds both counts in 32 bits each, which bounds the quota; State.A is
// the end of the window after the later one.
func NewSlidingCounter(quota, window int64) (*Rule, error) {
	if err := checkWindow(quota, window); err != nil {
		return nil, err
	}
	if quota > math.MaxUint32 {
		return nil, fmt.Errorf("quota %d cannot be exact: a sliding counter's may be %d at most", quota, math.MaxUint32)
	}
	return &Rule{kind: SlidingCounter, quota: quota, window: window, per: newDivisor(window)}, nil
}

// counts is the state of a sliding counter as seen at one instant.
type counts struct {
	start     int64 // of the window
	prev, cur int64
}

func (c counts) state(window int64) State {
	if c.prev|c.cur == 0 {
		return State{}
	}
	return State{c.start + 2*window, c.prev<<32 | c.cur}
}

// counts reads s, and rolls it on to the window of now.
func (r *Rule) counts(s State, now int64) (c counts, back bool) {
	if s.A <= now {
		return counts{start: r.per.floor(now) * r.window}, false
	}
	c = counts{s.A - 2*r.window, int64(uint64(s.B) >> 32), s.B & math.MaxUint32}
	if now < c.start {
		// The clock has stepped back. When these units came is not known any more:
		// the latest they can have is now.
		return counts{start: r.per.floor(now) * r.window, cur: min(c.prev+c.cur, math.MaxUint32)}, true
	}
	if now >= c.start+r.window {
		c = counts{start: c.start + r.window, prev: c.cur}
	}
	return c, false
}

func (r *Rule) takeCounter(s State, now, cost int64) (State, Verdict) {
	c, back := r.counts(s, now)
	if back {
		s = c.state(r.window)
	}
	elapsed := now - c.start
	left := max(r.quota-c.cur-r.weigh(c.prev, elapsed), 0)
	v := Verdict{Remaining: left}
	next := s
	switch ask := max(cost, 1); {
	case ask > r.quota:
		v.Retry = Never
	case ask > left:
		v.Retry = r.counterWait(c, elapsed, ask)
	case cost > 0:
		c.cur += cost
		v.Remaining -= cost
		next = c.state(r.window)
	}
	switch {
	case c.cur > 0:
		v.Reset = 2*r.window - elapsed
	case c.prev > 0:
		v.Reset = r.window - elapsed
	}
	return next, v
}

// weigh returns the whole units that still count of the window before:
// prev·(window−elapsed)/window, rounded down.
func (r *Rule) weigh(prev, elapsed int64) int64 {
	if prev == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(prev), uint64(r.window-elapsed))
	if hi == 0 && lo <= math.MaxInt64 {
		return r.per.floor(int64(lo))
	}
	q, _ := bits.Div64(hi, lo, uint64(r.window))
	return int64(q)
}

// counterWait returns how long until ask units, at most the quota, are admitted.
func (r *Rule) counterWait(c counts, elapsed, ask int64) int64 {
	if at := r.lightAt(c.prev, r.quota-c.cur-ask+1); at < r.window {
		return at - elapsed
	}
	return r.window - elapsed + r.lightAt(c.cur, r.quota-ask+1)
}

// lightAt returns the first instant of a window at which prev units of the one
// before weigh less than bound; the window's end if none does.
func (r *Rule) lightAt(prev, bound int64) int64 {
	switch {
	case bound < 1:
		return r.window
	case prev < bound:
		return 0
	}
	// prev·(window−at) < bound·window. As bound ≤ prev, the quotient fits.
	hi, lo := bits.Mul64(uint64(bound), uint64(r.window))
	q, rest := bits.Div64(hi, lo, uint64(prev))
	if rest == 0 {
		q--
	}
	return r.window - int64(q)
}

func (r *Rule) refundCounter(s State, now, cost int64) State {
	c, _ := r.counts(s, now)
	older := max(cost-c.cur, 0) // charged before this window began
	c.cur = max(c.cur-cost, 0)
	c.prev = max(c.prev-older, 0)
	return c.state(r.window)
}
