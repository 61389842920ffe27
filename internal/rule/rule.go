// Package rule has the rules of rate limiting as pure arithmetic: a state, the
// time and a cost go in, the next state and a verdict come out. There is no
// clock in it, no lock, no float and no I/O, so that one rule runs in memory,
// beside Redis, in a simulation and in a test.
//
// Times are Unix nanoseconds, from 1970 to 2116. Everything is exact: a rule whose
// numbers do not fit the integers is refused by its constructor.
//
// A clock that steps back creates no units, and delays nobody beyond the time
// that the rule takes to forget everything.
package rule

import "math"

// Kind is one of the rules.
type Kind uint8

// The rules. Those after Calendar keep a [History], the others a [State].
const (
	TokenBucket Kind = iota
	LeakyMeter
	LeakyQueue
	FixedWindow
	SlidingCounter
	Calendar
	SlidingLog
	SlidingBuckets
)

// String returns the rule's name as documents write it.
func (k Kind) String() string {
	return [...]string{
		"token_bucket", "leaky_meter", "leaky_queue", "fixed_window",
		"sliding_counter", "calendar", "sliding_log", "sliding_buckets",
	}[k]
}

// Never is the Retry of a cost that can never be admitted.
const Never = math.MaxInt64

// State is what a rule remembers of one key. The zero State is that of a key
// never seen.
type State struct {
	A int64 // not later than this instant the state equals new, whatever the rule is
	B int64 // the rest: a remainder, a count or two
}

// Verdict is the answer to one charge.
type Verdict struct {
	Remaining int64 // whole units that would still be admitted, this charge counted
	Retry     int64 // 0: admitted; else how long until this cost would be, or Never
	Reset     int64 // how long until the state equals new
	Delay     int64 // LeakyQueue, admitted: how long until this request leaves
}

// Allowed reports whether the charge was admitted.
func (v Verdict) Allowed() bool { return v.Retry == 0 }

// Rule is one rule with its numbers. It does not change, and is made by the
// constructors.
type Rule struct {
	kind  Kind
	align Align
	quota int64 // or the burst, or the capacity

	bucket bucket // TokenBucket, LeakyMeter, LeakyQueue

	window int64   // the others
	per    divisor // by window, or by cell
	cell   int64   // SlidingBuckets
	cells  int

	calendar *calendar
	rate     [2]int64 // as it was given: count, period
}

// Kind returns which rule it is.
func (r *Rule) Kind() Kind { return r.kind }

// Long reports whether the rule keeps a History in place of a State.
func (r *Rule) Long() bool { return r.kind > Calendar }

// Quota returns the quota, burst or capacity: the largest cost that can pass.
func (r *Rule) Quota() int64 { return r.quota }

// Window returns the window; of a bucket how long a drained one takes to be full,
// rounded up; of a Calendar 0.
func (r *Rule) Window() int64 {
	if r.kind <= LeakyQueue {
		return r.bucket.span
	}
	return r.window
}

// Rate returns the rate of a bucket as it was given, and zeroes for other rules.
func (r *Rule) Rate() (count, period int64) { return r.rate[0], r.rate[1] }

// Cells returns the cells of SlidingBuckets, and 0 for other rules.
func (r *Rule) Cells() int { return r.cells }

// Take charges cost to a key whose state is s. A cost of 0 asks whether 1 would
// pass. If the charge is refused or asks, next is s, with one exception: when s
// lies further ahead than the rule can look, because the clock has stepped back,
// next is s brought closer, and is to be kept although nothing was charged. A
// Steady bucket does not do that.
func (r *Rule) Take(s State, now, cost int64) (next State, v Verdict) {
	switch r.kind {
	case FixedWindow:
		return r.takeWindow(s, now, cost)
	case SlidingCounter:
		return r.takeCounter(s, now, cost)
	case Calendar:
		return r.takeCalendar(s, now, cost)
	}
	return r.takeBucket(s, now, cost)
}

// Refund gives back cost units, as far as that many are in use.
func (r *Rule) Refund(s State, now, cost int64) State {
	if cost <= 0 {
		return s
	}
	if s.A <= now {
		return State{}
	}
	switch r.kind {
	case FixedWindow, Calendar:
		return refundCount(s, cost)
	case SlidingCounter:
		return r.refundCounter(s, now, cost)
	}
	return r.refundBucket(s, now, cost)
}

// Fresh reports whether s equals the state of a key never seen, and may be
// forgotten. It is the same for every rule.
func (r *Rule) Fresh(s State, now int64) bool { return s.A <= now }
