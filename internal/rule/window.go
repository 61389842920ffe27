package rule

import (
	"fmt"
	"time"
)

// maxWindow is the longest window, 36 years: two of them fit a state.
const maxWindow = 1 << 60

// Align says where fixed windows start.
type Align uint8

// Where windows start.
const (
	ToClock       Align = iota // at the multiples of the window since the Unix epoch
	ToFirst                    // at a key's first admitted request
	ToClockPerKey              // as ToClock, earlier by Shift(key)
)

// NewFixedWindow admits quota units in every window, in nanoseconds.
//
// State.A is the end of the window and State.B the units charged in it.
func NewFixedWindow(quota, window int64, align Align) (*Rule, error) {
	if err := checkWindow(quota, window); err != nil {
		return nil, err
	}
	if align > ToClockPerKey {
		return nil, fmt.Errorf("alignment %d is unknown", align)
	}
	return &Rule{kind: FixedWindow, align: align, quota: quota, window: window, per: newDivisor(window)}, nil
}

func checkWindow(quota, window int64) error {
	switch {
	case quota < 1:
		return fmt.Errorf("quota %d is not positive: it could never admit anything", quota)
	case quota > maxSpan:
		return fmt.Errorf("quota %d cannot be exact: it may be %d at most", quota, int64(maxSpan))
	case window < 1:
		return fmt.Errorf("window of %v is not positive", time.Duration(window))
	case window > maxWindow:
		return fmt.Errorf("window of %v is too long: it may be %v at most", time.Duration(window), time.Duration(maxWindow))
	}
	return nil
}

// Align returns where windows start.
func (r *Rule) Align() Align { return r.align }

// Shift returns what is to be added to the time for this key, in every verb: 0
// unless the rule is ToClockPerKey. Then it is a number in [0, window) that is
// the same in every process and for ever. A state kept in shifted time is never
// thought fresh too early by a clock that is not shifted.
func (r *Rule) Shift(key string) int64 {
	if r.align != ToClockPerKey {
		return 0
	}
	h := uint64(14695981039346656037) // FNV-1a, and the last step of MurmurHash3:
	for i := range len(key) {         // keys that differ in the last byte are far apart
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int64((h ^ h>>33) % uint64(r.window))
}

// Reach returns how far ahead of a time that is not shifted a State of a
// FixedWindow or Calendar may lie, unless the clock has stepped back.
func (r *Rule) Reach() int64 {
	switch {
	case r.kind == Calendar:
		return int64(2 * 32 * 24 * time.Hour)
	case r.align == ToClockPerKey:
		return 2 * r.window
	}
	return r.window
}

func (r *Rule) takeWindow(s State, now, cost int64) (State, Verdict) {
	if s.A-now > r.window {
		s.A = now + r.window
	}
	at := s
	if at.A <= now {
		at = State{A: now}
	}
	next, v := r.count(at, now, cost)
	if v.Retry > 0 || cost <= 0 {
		return s, v
	}
	if at.B == 0 && at.A == now {
		next.A = now + r.window
		if r.align != ToFirst {
			next.A = (r.per.floor(now) + 1) * r.window
		}
		v.Reset = next.A - now
	}
	return next, v
}

// count charges a window whose end and units are at.
func (r *Rule) count(at State, now, cost int64) (State, Verdict) {
	v := Verdict{Remaining: max(r.quota-at.B, 0), Reset: at.A - now}
	switch ask := max(cost, 1); {
	case ask > r.quota:
		v.Retry = Never
	case ask > v.Remaining:
		v.Retry = v.Reset
	case cost > 0:
		at.B += cost
		v.Remaining -= cost
	}
	return at, v
}

func refundCount(s State, cost int64) State {
	if cost >= s.B {
		return State{}
	}
	s.B -= cost
	return s
}
