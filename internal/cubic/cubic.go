// Package cubic learns a pace from refusals that tell no numbers. It is a pure
// rule of the instants it is given: no clock, no lock, no memory beyond a
// [Learner] for each key.
//
// The first refusal arms the learner. From then on the rate follows the curve
// of CUBIC (Ha, Rhee, Xu: "CUBIC: a new TCP-friendly high-speed TCP variant",
// 2008; RFC 9438), with a rate where TCP has a window:
//
//	rate
//	 │                                        ╱  search: doubles until refused
//	 │   refused                            ╱
//	 │      ╲                            ╭─╯     a quarter over max: that limit is gone
//	 │  max ─┼ ─ ─ ─ ─ ─ ─ ─╭───────────╯        dwells where it was refused last
//	 │       │          ╭───╯
//	 │       │       ╭──╯
//	 │       │     ╱                             max × (1 + depth × ((t−K)/K)³)
//	 │       ╰────╯
//	 └───────┴──────────────┴────────────────► t
//	        cut             K
//
// A refusal costs the share depth of max: 0.3 as in RFC 9438, and 0.15 if it
// came on the curve, where the rate is at most a quarter too high. (A refusal
// is explicit, and a limiter has no long queue to drain: RFC 8511 argues this
// for ECN, with the same number.) K is ∛(depth × max / 0.4) seconds as in the
// RFC, within two bounds: at most [longestK], so that a limit that was raised
// fourfold is found in ten seconds at any rate, and at least the time of
// [probeEvery] units, so that a slow provider is not probed more often per call
// than a fast one.
//
// What else differs from a TCP sender, and why:
//
//   - max is not simply the rate at the refusal. That is the geometric mean of
//     what was let out and what was accepted of late (in a search the one runs
//     ahead of the other). And between two refusals a bucket, leaky or of
//     tokens, is full at both ends, so what it accepted in between over the time
//     in between is its rate exactly; a window that was spent early is found out
//     likewise. If that mean is under max, it counts as much as the rate; if
//     not, the provider has more than it had, and the past does not count.
//   - A burst says little: of sixteen calls at once nginx may take six, at any
//     rate. After silence, or of few calls, the rate starts at as many a second
//     as were accepted, and a search follows. With a configured rate it starts
//     from that, unless what was accepted has been steady for a second and is
//     less; and if it is refused again within a second, as if none were. What is
//     more than configured was not let out, and never counts.
//   - Refusals come in bunches. Those of calls that had left before the last
//     cut, and those within [settleFor] of it, cut nothing.
//   - Refusals within a second of the one that set max, or with no acceptance in
//     between, say that the provider is shut or still has to recover, not how
//     fast it is: the rate falls by 0.3 each, max stays, and once calls are
//     accepted again a search leads back to the foot of the curve.
//   - Only what is used grows (RFC 9438 section 5.8): a unit that left buys the
//     time of two at the present rate, and time counts once an answer came.
//
// What to expect: one or two refusals in a hundred calls, fewer at high rates,
// and 95 % of the limit used, whether the provider counts by leaky bucket, by
// tokens or in windows of a second. A window of a minute that tells no numbers
// costs more.
package cubic

import "math"

const (
	depthFound  = 0.3  // RFC 9438 section 4.6: beta 0.7
	depthProbed = 0.15 // RFC 8511: beta 0.85
	cubicC      = 0.4  // RFC 9438 section 5
	longestK    = 4    // seconds
	probeEvery  = 50   // units
	regained    = 1.25 // times max without a refusal: search

	doubling   = 0.4 // seconds in which a search doubles the rate, at least...
	doubleOver = 2   // ...and over so many units...
	doubleRTT  = 3   // ...and so many for each call in flight, for round trips

	leastRate = 0.5 // units a second
	mostRate  = 1e9 // likewise; more is no limit
	enough    = 10  // units accepted in a second that are worth a rate

	window    = 0.5  // seconds; what is recent is one to two of them
	settleFor = 0.25 // seconds after a cut in which refusals are of the same event
	overtaken = 2    // seconds after which a call without an answer is taken as lost
	forgetIn  = 300  // seconds without a refusal: off
)

// Learner slows a key down after refusals that told no numbers, and comes back
// by itself. The zero value is off. It is not safe for concurrent
// use. It reads no clock: now is in nanoseconds on one that may step back,
// which counts as no time.
//
// The units it allows are meant for a bucket that starts empty and holds what
// the rate gives in a few milliseconds, at least 1.
type Learner struct {
	// Given is how many units per second are configured. Zero: none. It may
	// change before any answer.
	Given float64

	phase phase
	begun bool // last is set
	first bool // nothing was cut since it was armed
	guess bool // and max is what was given, of which nothing is known
	last  int64

	// Units accepted in this window, which has an age, and the two before.
	age, lately, before, earlier float64

	// Units accepted, and seconds, since the last refusal that followed an
	// acceptance.
	taken, since float64

	pace       float64 // units per second now
	max, depth float64
	k, t       float64 // seconds
	ceiling    float64 // where a search meets the curve
	due        float64 // seconds since the rate last grew
	left       float64 // units that left and have not yet bought time
	perCall    float64 // units of a call, on average
	flying     int     // calls that left and have no answer yet
	stale      int     // of which left before the last cut
	cutAgo     float64 // seconds
	untroubled float64 // seconds since the last refusal
}

type phase uint8

const (
	off    phase = iota
	search       // doubling, up to ceiling
	curve
)

// On tells whether a learnt rate is in force.
func (l *Learner) On() bool { return l.phase != off }

// Rate is how many units per second may leave. It means something only if On,
// and changes only in Answer and Sent.
func (l *Learner) Rate() float64 { return l.pace }

// Sent notes that a call of n units left. While off it does nothing.
func (l *Learner) Sent(now, n int64) {
	if l.phase == off {
		return
	}
	if l.pass(now); l.phase == off {
		return
	}
	l.flying = min(l.flying+1, 2+int(overtaken*l.pace))
	l.left += float64(n)
	l.perCall += (float64(n) - l.perCall) / 16
}

// Answer notes what the provider said to one call: refused without a number to
// go by, or anything else.
func (l *Learner) Answer(now int64, throttled bool) {
	l.pass(now)
	if l.phase == off {
		if throttled {
			l.arm()
		} else {
			l.lately++
		}
		return
	}
	old := l.land()
	switch {
	case !throttled:
		l.accept()
	case old || l.cutAgo < settleFor:
		l.untroubled = 0
	default:
		l.cut()
	}
}

// pass lets the time up to now go by.
func (l *Learner) pass(now int64) {
	s := float64(now-l.last) / 1e9
	if !l.begun {
		l.begun, s = true, 0
	}
	l.last = now
	if s <= 0 {
		return
	}
	switch l.age += s; {
	case l.age >= 2*window:
		l.age, l.earlier, l.before, l.lately = 0, 0, 0, 0
	case l.age >= window:
		l.age, l.earlier, l.before, l.lately = l.age-window, l.before, l.lately, 0
	}
	if l.phase == off {
		return
	}
	l.since += s
	l.due += s
	l.cutAgo += s
	if l.untroubled += s; l.untroubled >= forgetIn {
		*l = Learner{
			Given: l.Given, begun: true, last: now,
			age: l.age, lately: l.lately, before: l.before, earlier: l.earlier,
		}
	}
}

// recent is how many units a second were accepted of late. A burst after a
// window of silence is taken to be all of its second.
func (l *Learner) recent() float64 {
	if l.before == 0 {
		return l.lately
	}
	return (l.lately + l.before*(1-l.age/window)) / window
}

// land counts an answer, and tells whether its call left before the last cut.
// Answers are taken to come in the order of their calls, as refusals do.
func (l *Learner) land() (old bool) {
	if l.stale > 0 && l.cutAgo > overtaken {
		l.flying, l.stale = max(0, l.flying-l.stale), 0
	}
	if l.flying > 0 {
		l.flying--
	}
	if l.stale > 0 {
		l.stale--
		return true
	}
	return false
}

func (l *Learner) arm() {
	l.phase, l.ceiling = search, math.Inf(1)
	l.perCall = 1
	l.max = max(leastRate, l.recent())
	known := l.before >= enough*window && l.max >= enough
	if l.Given > 0 && (!l.steady() || l.max > l.Given) {
		known, l.guess, l.max = true, true, max(leastRate, l.Given)
	}
	l.pace = l.max
	if known {
		l.bend(depthFound)
	}
	l.brake()
	l.first = true
}

// steady tells whether as many were accepted of late as in the second before,
// give or take, and enough to tell.
func (l *Learner) steady() bool {
	now := l.recent() * window
	least := min(now, l.before, l.earlier)
	return least >= enough*window && max(now, l.before, l.earlier) <= 2*least
}

// accept lets the rate grow by the time that use has paid for.
func (l *Learner) accept() {
	l.lately += l.perCall
	l.taken += l.perCall
	if l.first && l.phase == search && l.cutAgo < settleFor {
		l.pace = max(l.pace, l.recent()) // of the burst that armed it
	}
	s := min(l.due, 2*l.left/l.pace)
	l.left = min(l.left-s*l.pace/2, max(l.pace/2, 2*l.perCall))
	l.due = 0
	switch l.phase {
	case search:
		if l.since < 1 && !math.IsInf(l.ceiling, 1) {
			return // refused again too soon: look on for the rest of a second
		}
		l.pace *= math.Exp2(s / max(doubling, (doubleOver+doubleRTT*float64(l.flying))/l.pace))
		if l.pace >= l.ceiling {
			l.phase, l.pace, l.t = curve, l.ceiling, 0
		}
	case curve:
		l.t += s
		x := l.t/l.k - 1
		l.pace = max(leastRate, l.max*(1+l.depth*x*x*x))
		if l.pace >= regained*l.max {
			l.phase, l.ceiling = search, math.Inf(1)
		}
	}
	l.pace = min(l.pace, mostRate)
}

// cut answers a refusal that is news.
func (l *Learner) cut() {
	if l.Given > 0 {
		l.pace = min(l.pace, max(leastRate, l.Given))
	}
	if l.taken == 0 || l.since < 1 { // shut, or too soon to tell
		l.phase = search
		l.pace = max(leastRate, (1-depthFound)*l.pace)
		if n := l.recent(); l.guess && n > 0 { // refused again so soon: it was wrong
			l.guess = false
			l.pace = min(l.pace, max(leastRate, n))
			l.max, l.ceiling = l.pace, math.Inf(1)
		}
		l.brake()
		return
	}
	depth := depthFound
	if l.phase == curve {
		depth = depthProbed
	}
	latest := l.pace
	if latest > enough { // what was let out, and what was accepted of late
		latest = math.Sqrt(latest * min(latest, max(leastRate, l.recent())))
	}
	if mean := l.taken / l.since; mean < l.max {
		latest = min(latest, math.Sqrt(mean*latest))
	}
	l.guess = false
	l.max = max(leastRate, latest)
	l.bend(depth)
	l.taken, l.since = 0, 0
	l.brake()
}

// bend starts the curve under max.
func (l *Learner) bend(depth float64) {
	l.phase, l.depth, l.t = curve, depth, 0
	l.k = max(min(math.Cbrt(depth*l.max/cubicC), longestK), probeEvery/l.max)
	l.ceiling = max(leastRate, (1-depth)*l.max)
	l.pace = min(l.pace, l.ceiling)
}

// brake starts the time after a cut.
func (l *Learner) brake() {
	l.first, l.stale = false, l.flying
	l.cutAgo, l.untroubled = 0, 0
	l.due, l.left = 0, 0
}
