package pacer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/observe"
)

// room is the one lock of all pacers whose lines some call has claimed
// together. A pacer begins with a room of its own; the first [WaitAll] over two
// rooms joins them for ever. So nobody ever waits for a lock with another in
// hand, but for the two rooms being joined, and those are locked in the order
// of their ids.
type room struct {
	id     uint64
	joined atomic.Pointer[room] // where all have gone; set once, under both locks

	mu       sync.Mutex
	round    uint64 // counts looks, see below
	arrivals uint64 // counts those who had to wait
}

var roomID atomic.Uint64

// lock locks the room that p is in.
func (p *Pacer) lock() *room {
	for {
		r := p.home()
		r.mu.Lock()
		if r.joined.Load() == nil {
			p.prepare()
			return r
		}
		r.mu.Unlock()
	}
}

// home is the room that p is in, or was a moment ago.
func (p *Pacer) home() *room {
	r := p.room.Load()
	if r == nil {
		p.room.CompareAndSwap(nil, &room{id: roomID.Add(1)})
		r = p.room.Load()
	}
	for next := r.joined.Load(); next != nil; next = r.joined.Load() {
		p.room.CompareAndSwap(r, next)
		r = next
	}
	return r
}

// join makes p and q share a room.
func join(p, q *Pacer) {
	for {
		a, b := p.home(), q.home()
		if a == b {
			return
		}
		if a.id > b.id {
			a, b = b, a
		}
		a.mu.Lock()
		b.mu.Lock()
		both := a.joined.Load() == nil && b.joined.Load() == nil
		if both {
			b.joined.Store(a)
			a.round = max(a.round, b.round)
			a.arrivals = max(a.arrivals, b.arrivals)
		}
		b.mu.Unlock()
		a.mu.Unlock()
		if both {
			return
		}
	}
}

// look is how far a round has looked through a line: who may leave now depends
// on who is before them, in every line they wait for. A round looks at each
// place once.
type look struct {
	round uint64
	at    *place // the next to look at
	shut  bool   // somebody before it blocks the line
	known [2]struct {
		n, at int64 // when n-1 units may leave, after none or one other; n is 0: not known
		why   observe.Reason
	}
}

// open begins l's look of this round.
func (r *room) open(l *line) {
	if l.look.round != r.round {
		l.look = look{round: r.round, at: l.first()}
	}
}

// soonest is l's, asked once a round: most calls are for as many units.
func (r *room) soonest(l *line, now, ahead, n int64) (at int64, why observe.Reason) {
	r.open(l)
	k := &l.known[ahead]
	if k.n != n+1 {
		k.n = n + 1
		k.at, k.why = l.soonest(now, ahead, n)
	}
	return k.at, k.why
}

type verdict uint8

const (
	passedOver verdict = iota // more than one of its lines is not ready: others go first
	mayLeave                  // all its lines are ready, and stay so until it left
	nextIn                    // one of its lines is not ready: there nobody goes before it
)

// patience is how long a call lets others go first in a line that is ready for
// it, even if that delays it. From then on they may only while it waits for
// another line anyway: two busy keys could else starve a call that needs both.
const patience = time.Second

// judge says whether w may leave now.
func (r *room) judge(w *waiter, now time.Time) verdict {
	if w.seen == r.round {
		return w.verdict
	}
	w.seen, w.verdict, w.missing, w.soon = r.round, passedOver, nil, never
	patient := now.Sub(w.since) < patience
	missing, soon := 0, int64(0)
	for i := range w.places {
		p := &w.places[i]
		wait, why, ok := r.ready(p, now)
		if ok {
			continue
		}
		w.missing = p.line
		if missing == 0 || wait > soon {
			w.why, w.last = why, p.line
		}
		soon = max(soon, wait)
		if missing++; missing > 1 && patient {
			return passedOver
		}
	}
	switch missing {
	case 0:
		w.verdict = mayLeave
	case 1:
		w.verdict = nextIn
	}
	if !patient {
		w.soon = soon
	}
	return w.verdict
}

// blocks tells whether p's waiter, which was judged, keeps those behind p from
// leaving.
func (r *room) blocks(p *place, now time.Time) bool {
	w, l := p.waiter, p.line
	switch {
	case w.verdict == mayLeave, w.verdict == nextIn && w.missing == l:
		return true
	case w.soon == never:
		return false
	}
	t := l.pacer.clock(now)
	at, _ := r.soonest(l, t, 1, p.n)
	return at-t > w.soon
}

// ready tells whether p's line would let it leave now, and if not, why, and
// after how long it would.
func (r *room) ready(p *place, now time.Time) (wait int64, why observe.Reason, ok bool) {
	l := p.line
	t := l.pacer.clock(now)
	l.settle(t)
	if at, why := r.soonest(l, t, 0, p.n); at > t {
		return at - t, why, false
	}
	if l.full() {
		return never, observe.InFlight, false
	}
	if l.turn != nil && l.turn != p.waiter || r.blocked(p, now) {
		return never, observe.Pace, false
	}
	return 0, "", true
}

// blocked tells whether somebody goes before p in its line.
func (r *room) blocked(p *place, now time.Time) bool {
	l := p.line
	r.open(l)
	for p.seen != r.round && !l.shut && l.at != nil {
		q := l.at
		if q == p {
			return false
		}
		q.seen = r.round
		r.judge(q.waiter, now)
		l.shut = r.blocks(q, now)
		if l.at == q { // looking at q's other lines may have come back here
			l.at = l.after(q)
		}
	}
	return p.seen != r.round && l.shut
}

// wake finds who may leave each of w's lines now, after a change to them.
func (r *room) wake(w *waiter, now time.Time) {
	r.round++
	r.call(w, now)
}

// wakeLine is wake of a line.
func (r *room) wakeLine(l *line, now time.Time) {
	r.round++
	r.callIn(l, now)
}

// call is wake with what this round saw already.
func (r *room) call(w *waiter, now time.Time) {
	for i := range w.places {
		r.callIn(w.places[i].line, now)
	}
}

// callIn finds who may leave l now, and calls it: that one calls the next as it
// leaves. If nobody may, it sets a timer for when somebody may.
func (r *room) callIn(l *line, now time.Time) {
	t := l.pacer.clock(now)
	l.settle(t)
	due := int64(never)
	if l.hold.active(t) { // its end empties the bucket: who may try now may have to wait then
		due = l.hold.end
	}
	for p := l.first(); p != nil; p = l.after(p) {
		if r.judge(p.waiter, now) == mayLeave {
			p.waiter.call()
			due = never
			break
		}
		if at, _ := r.soonest(l, t, 0, p.n); at > t {
			due = min(due, at)
		}
		if r.blocks(p, now) {
			if p.waiter.missing != l { // to look again, should that line be late
				due = min(due, later(t, later(p.waiter.soon, 1)))
			}
			break
		}
	}
	r.arm(l, t, due)
}

// arm sets l's timer. A timer is made anew each time: one that was made in a
// synctest bubble must not be touched outside of it.
func (r *room) arm(l *line, now, due int64) {
	if l.timer != nil && l.due == due {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if due == never {
		return
	}
	l.due = due
	l.timer = time.AfterFunc(time.Duration(due-now), l.ring)
}

// ring is what l's timer does.
func (l *line) ring() {
	r := l.pacer.lock()
	defer r.mu.Unlock()
	now := time.Now()
	if l.pacer.clock(now) >= l.due {
		l.timer = nil
	}
	r.wakeLine(l, now)
}
