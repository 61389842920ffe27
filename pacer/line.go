package pacer

import (
	"sync/atomic"

	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/internal/cubic"
	"github.com/politehttp/polite/observe"
)

// line is one key of a pacer: what it may do, and who waits for it. What it
// may do is a pure rule of the instants it is given.
type line struct {
	pacer *Pacer
	key   string

	// Read and changed without the lock, so that a key which nothing paces
	// costs no lock.
	free     atomic.Bool  // nothing paces this key
	quiet    atomic.Bool  // an answer that says nothing changes nothing
	sent     atomic.Int64 // calls that left
	extra    atomic.Int64 // their units, less one each
	answered atomic.Int64 // answers

	// Guarded by the room's lock.
	bucket   bucket
	hold     hold
	learnt   learnt
	spread   spread
	rations  rations
	flight   flight
	inFlight int
	took     took
	aimd     *aimd  // nil: not AdaptInFlight
	release  func() // bound once; counts a call out
	local    int64  // Shared failed: until then this process paces itself
	apart    apart  // at its share
	pinned   bool   // found, and to be used before the lock is given up
	waiting
	older, newer *line // in the pacer's list, by last use
}

// soonest returns the first instant from now on at which n units may leave
// after ahead others, and what they wait for until then. How many calls are in
// flight is left out, for nobody knows when those end.
func (l *line) soonest(now, ahead, n int64) (at int64, why observe.Reason) {
	at = l.hold.soonest(now)
	if at > now {
		why = observe.Hold
	}
	most := float64(never)
	if l.hold.empty && at >= l.hold.end { // sooner one tries, with what the bucket has
		most = 1
	}
	if !l.shared(now) {
		t := max(l.bucket.soonest(at, ahead, n, most), l.apart.soonest(at, ahead, l.bucket.pace.Rate))
		if t > at {
			at, why = t, observe.Pace
		}
	}
	if l.learnt.on() {
		if t := l.learnt.soonest(at, ahead); t > at {
			at, why = t, observe.Learnt
		}
	}
	if l.spread.on {
		if t := l.spread.soonest(at, ahead, n, l.out(now)); t > at {
			at, why = t, observe.Spread
		}
	}
	if len(l.rations) > 0 {
		if t := l.rations.soonest(at, ahead, n); t > at {
			at, why = t, observe.Spread
		}
	}
	return at, why
}

// full tells whether as many calls are in flight as may be.
func (l *line) full() bool {
	return l.pacer.bounded() && l.inFlight >= l.maxInFlight()
}

// shared tells whether a store, and not the bucket here, keeps the rate.
func (l *line) shared(now int64) bool {
	return l.pacer.Shared != nil && now >= l.local && !l.bucket.pace.Rate.none()
}

// settle does what is due by now, before anything else happens at now.
func (l *line) settle(now int64) {
	if l.hold.empty && now >= l.hold.end {
		// One unit stays: the first leaves as the hold ends, the rest by rate.
		l.bucket.keep(l.hold.end, 1)
		l.hold.empty = false
	}
	if l.spread.on && now >= l.spread.free {
		l.spread.on = false
		l.hold.ease(l.spread.free, l.spread.width)
	}
	l.rations.settle(now)
}

// take lets a call of n units leave now, which soonest and full allowed.
func (l *line) take(now, n int64) {
	paced := !l.bucket.pace.Rate.none() || l.learnt.on() || len(l.rations) > 0
	if l.hold.end > 0 {
		l.hold.take(now, l.pacer.maxHold(), max(0, l.calls()-1), paced)
	}
	if l.shared(now) {
		l.bucket.drain(now, n)
	} else {
		l.bucket.take(now, n)
		l.apart.take(now, n, l.bucket.pace.Rate)
	}
	l.learnt.take(now, n)
	l.count(n)
	if l.spread.on {
		l.spread.take(now, n, l.out(now))
	}
	l.rations.take(now, n)
	if l.pacer.bounded() {
		l.inFlight++
		if l.aimd != nil {
			l.aimd.left(now, l.inFlight)
		}
	}
}

// count notes that a call of n units left.
func (l *line) count(n int64) {
	l.sent.Add(1)
	if n != 1 {
		l.extra.Add(n - 1)
	}
}

// out is how many units have left and not been answered, on the average of
// what calls are worth.
func (l *line) out(now int64) int64 {
	return l.worth(l.flight.out(now, l.sent.Load(), l.answered.Load()))
}

// worth is the units of so many calls.
func (l *line) worth(calls int64) int64 {
	extra, sent := l.extra.Load(), l.sent.Load()
	if extra == 0 || sent == 0 {
		return calls
	}
	return max(0, calls+int64(float64(calls)*float64(extra)/float64(sent)))
}

// tell takes in what an answer says of the limits, and reports whether that
// changed when calls may leave.
func (l *line) tell(now int64, limits []headerparse.Limit, below float64) (changed bool) {
	told := false
	for i := range limits {
		m := &limits[i]
		if !waitable(m) {
			continue
		}
		told = told || m.Name == l.spread.name
		if m.Remaining == 0 {
			changed = l.keepBack(now, later(now, int64(m.Reset))) || changed
		}
		if below > 0 && m.Quota > 0 && m.Unit != "content-bytes" {
			changed = l.spread.tell(now, *m, below, l.pacer.random) || changed
		}
	}
	if l.spread.on && !told {
		// An answer without the limit that is spread is taken to have used it.
		l.spread.left -= l.worth(1)
		changed = true
	}
	return changed
}

// ration takes in what an answer says of the limits that are rationed, and of
// those that are to be.
func (l *line) ration(now int64, s *headerparse.Signal) (changed bool) {
	refused := s.Told && throttle(s.Status)
	for i := range s.Limits {
		m := &s.Limits[i]
		if m.Remaining < 0 || m.Quota <= 0 || m.Unit == "concurrent-requests" || m.Unit == "content-bytes" {
			continue
		}
		spent := waitable(m) && (m.Remaining == 0 || refused && i == s.By)
		changed = l.rations.tell(now, m, spent, !refused && l.calls() == 0) || changed
	}
	return changed
}

// waitable tells whether a limit tells for what to wait, and until when.
func waitable(m *headerparse.Limit) bool {
	return m.Remaining >= 0 && m.Reset > 0 && m.Unit != "concurrent-requests"
}

// ample tells whether no limit is near its end.
func ample(limits []headerparse.Limit, below float64) bool {
	for i := range limits {
		if m := &limits[i]; waitable(m) && (m.Remaining == 0 || m.Remaining < below*m.Quota) {
			return false
		}
	}
	return true
}

// keepBack holds the line until an instant.
func (l *line) keepBack(now, until int64) bool {
	return l.hold.extend(now, until, l.pacer.maxHold(), l.pacer.random())
}

// jitter is how much later than told a line's hold and spread end.
type jitter struct{ hold, spread int64 }

// hasten ends l's hold and spread as told, without jitter, and returns that:
// jitter must not cost a call its deadline. Relax undoes it.
func (l *line) hasten(now int64) (j jitter) {
	if l.hold.active(now) {
		j.hold = l.hold.end - l.hold.told
	}
	if l.spread.on && now < l.spread.free {
		j.spread = l.spread.free - l.spread.reset
	}
	l.relax(jitter{-j.hold, -j.spread})
	return j
}

func (l *line) relax(j jitter) {
	l.hold.end += j.hold
	l.spread.free += j.spread
}

// fresh returns the first instant from now on at which l equals a new line, if
// nothing happens before: never, if something must.
func (l *line) fresh(now int64) int64 {
	if l.calls() > 0 || l.inFlight > 0 || l.learnt.on() {
		return never
	}
	at := max(now, l.local, l.apart.paid)
	if l.hold.active(now) {
		at = max(at, l.hold.end)
	}
	if l.spread.on {
		at = max(at, l.spread.free)
	}
	if l.aimd != nil {
		at = max(at, l.aimd.fresh())
	}
	at = l.rations.fresh(at)
	if l.hold.empty { // the bucket is going to be as settle leaves it
		return max(at, l.bucket.fresh(l.hold.end, 1))
	}
	return l.bucket.fresh(at, never)
}

// refresh says to those who come without the lock what they may do so.
func (l *line) refresh(now int64) {
	held := l.hold.active(now) || l.hold.gap > 0 || l.hold.empty
	quiet := !held && !l.spread.on && !l.learnt.on() && len(l.rations) == 0
	l.quiet.Store(quiet)
	l.free.Store(quiet && l.bucket.pace.Rate.none() && !l.pacer.bounded() && l.calls() == 0)
}

// learnt is the pace that a learner found, kept by a theoretical arrival
// time: the instant by which what has left is paid for.
type learnt struct {
	learner *cubic.Learner // nil until the first sample
	paid    int64          // that instant; may be ahead of now by timerSlack
	fed     int64          // answers that the learner knows of
	fedAt   int64
}

func (l *learnt) on() bool { return l.learner != nil && l.learner.On() }

func (l *learnt) soonest(now, ahead int64) int64 {
	return max(now, after(l.paid, float64(ahead)*1e9/l.learner.Rate())-int64(timerSlack))
}

func (l *learnt) take(now, n int64) {
	if !l.on() {
		return
	}
	l.paid = after(max(l.paid, now), float64(n)*1e9/l.learner.Rate())
	l.learner.Sent(now, n)
}

// feed gives a learner that is off the answers that came since the last time,
// as if evenly: their instants were not worth a reading of the clock each.
func (l *learnt) feed(now, answered int64) {
	n := min(answered-l.fed, 4*sampleEvery)
	if l.learner == nil {
		l.learner = new(cubic.Learner)
	}
	for i := range n {
		l.learner.Answer(l.fedAt+int64(float64(now-l.fedAt)*float64(i+1)/float64(n)), false)
	}
	l.fed, l.fedAt = answered, now
}

// accepted tells the learner of answers that are no refusals.
func (l *learnt) accepted(now, answered int64, sample bool) {
	switch {
	case l.on():
		l.hear(now, false)
		l.fed, l.fedAt = answered, now
	case sample || answered-l.fed >= sampleEvery:
		l.feed(now, answered)
	}
}

// refused tells the learner of a refusal without numbers, at a configured rate.
func (l *learnt) refused(now, answered int64, given Rate) {
	was := l.on()
	if !was {
		l.feed(now, answered)
	}
	l.learner.Given = 0
	if !given.none() {
		l.learner.Given = given.perSecond()
	}
	l.hear(now, true)
	l.fed, l.fedAt = answered, now
	if !was && l.on() { // nothing is paid for yet: the bucket starts empty
		l.paid = after(now+int64(timerSlack), 1e9/l.learner.Rate())
	}
}

// hear passes an answer on. What is not paid for yet is paid at the new rate.
func (l *learnt) hear(now int64, throttled bool) {
	old := l.learner.Rate()
	l.learner.Answer(now, throttled)
	if due := l.paid - now; l.on() && old > 0 && due > 0 {
		l.paid = after(now, float64(due)*old/l.learner.Rate())
	}
}

// sampleEvery is how many answers pass between two readings of the clock while
// nothing is learnt.
const sampleEvery = 128
