package pacer

import (
	"context"
	"net/http"
	"time"

	"github.com/politehttp/polite/headerparse"
)

// SetRate changes Rate and Burst, of every key, at once and for calls that wait
// already. What was used stays used. One that would now wait longer than it may
// is refused; and a Burst under its n refuses it with ErrTooLarge.
func (p *Pacer) SetRate(rate Rate, burst int64) {
	r := p.lock()
	defer r.mu.Unlock()
	now := time.Now()
	t := p.clock(now)
	p.pace.Rate, p.pace.Burst = rate, burst
	p.rev++
	p.loosen()
	set := func(l *line) {
		l.settle(t)
		l.bucket.set(p.pace, t)
		r.refuse(l, now)
		r.changed(l, now)
	}
	for l := p.oldest; l != nil; l = l.newer {
		set(l)
	}
	for _, l := range p.overflow {
		if l != nil {
			set(l)
		}
	}
}

// Hold lets no call of key leave before an instant, those that wait already
// included; a call for which that is too late is refused at once. The bucket is
// then empty but for one unit, and the hold ends up to a tenth later, at random
// and at most 30 s: clients that were told the same instant must not come all
// at once. A call that fits its deadline but for that leaves at the instant
// itself, and the others from then on. A hold never gets shorter otherwise, and
// one over MaxHold is tried, see there.
// With Shared, the other processes hold too.
func (p *Pacer) Hold(key string, until time.Time) {
	now := time.Now()
	if !until.After(now) {
		return
	}
	r := p.lock()
	l := p.find(key)
	t := p.clock(now)
	l.settle(t)
	held := l.keepBack(t, later(t, int64(until.Sub(now))))
	if held {
		r.refuse(l, now)
		r.changed(l, now)
	}
	r.mu.Unlock()
	if held {
		p.holdShared(key, until.Sub(now))
	}
}

// holdShared tells the other processes.
func (p *Pacer) holdShared(key string, d time.Duration) {
	if p.Shared == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	_ = p.Shared.Hold(ctx, key, d) // a store that fails paces nobody; this process holds
}

// Observe learns from the answer to a call of key, received at now (zero: just
// now). It is to be called for every answer.
//
//	429, 503, 403 with a told wait   hold
//	429, 503 with nothing but that,
//	  within 10 s of a hold          hold, and slow down: all who wait leave at once after it
//	429, 503 without any number      slow down, and come back by oneself; unless TrustRate
//	any, with a limit that is spent  hold until its reset
//	any, with little left            spread that until the reset
//	any, once a limit was spent      deal out what it gives
//
// A limit with a window of up to a minute that is spent is asked for more than
// it gives. From then on, until half of it is left with nobody waiting, its
// units leave at the pace of quota and window: up to three times that while
// there is much, less when little more than nothing is left. So one client
// uses all of it and is refused no more, and several that share it without
// knowing of each other find their shares, at the cost of some refusals.
//
// The first slow-down is to seven tenths of Rate, or of what was accepted lately
// if that is less and steady. Where refusals have nothing to do with the pace, each
// slows down more: of 20 a second one 503 in ten calls leaves less than one.
// [Pacer.Learnt] shows it, and TrustRate prevents it.
func (p *Pacer) Observe(key string, s headerparse.Signal, now time.Time) {
	counted := false
	if !throttle(s.Status) && ample(s.Limits, p.spreadBelow()) {
		if l := p.last.Load(); l != nil && l.key == key && l.quiet.Load() {
			if l.answered.Add(1)%sampleEvery != 0 {
				return
			}
			counted = true
		}
	}
	if held := p.observe(key, &s, now, counted); held > 0 {
		p.holdShared(key, held)
	}
}

// Answered is Observe for an answer, received just now, that is no refusal and
// says nothing of limits.
func (p *Pacer) Answered(key string) {
	counted := false
	if l := p.last.Load(); l != nil && l.key == key && l.quiet.Load() {
		if l.answered.Add(1)%sampleEvery != 0 {
			return
		}
		counted = true
	}
	p.observe(key, &headerparse.Signal{Status: http.StatusOK, By: -1}, time.Time{}, counted)
}

// observe returns how long the answer makes the key hold.
func (p *Pacer) observe(key string, s *headerparse.Signal, received time.Time, counted bool) (held time.Duration) {
	r := p.lock()
	defer r.mu.Unlock()
	told := s.Told && s.Wait > 0 && throttle(s.Status)
	l := p.known(key)
	if l == nil {
		if !throttle(s.Status) && ample(s.Limits, p.spreadBelow()) {
			return 0
		}
		l = p.find(key)
	}
	now := time.Now()
	t := p.clock(now)
	l.settle(t)
	if !counted {
		l.answered.Add(1)
	}
	before := l.hold.end
	changed := !told && l.tell(t, s.Limits, p.spreadBelow())
	if len(l.rations) > 0 {
		l.rations.answered(t, l.worth(1))
		changed = true
	}
	changed = p.spreadBelow() > 0 && l.ration(t, s) || changed
	switch {
	case told:
		if l.hold.asked {
			before, l.hold.end = 0, 0 // the provider knows better now
		}
		wait := s.Wait
		if !received.IsZero() {
			wait -= max(0, now.Sub(received))
		}
		changed = l.keepBack(t, later(t, int64(max(0, wait))))
		if !p.TrustRate && len(s.Limits) == 0 && s.Status != http.StatusForbidden && (l.learnt.on() || before > 0 && t >= before && t-before < int64(again)) {
			l.learnt.refused(t, l.answered.Load(), l.bucket.pace.Rate)
		} else {
			l.learnt.fed++ // no acceptance
		}
	case l.hold.end > before: // spent, whatever the status
	case s.Status == http.StatusTooManyRequests || s.Status == http.StatusServiceUnavailable:
		l.hold.asked = false
		l.learnt.fed++
		if !p.TrustRate {
			l.learnt.refused(t, l.answered.Load(), l.bucket.pace.Rate)
		}
		changed = true
	default:
		changed = l.hold.lift(t) || changed || l.learnt.on()
		l.learnt.accepted(t, l.answered.Load(), counted)
	}
	if l.hold.end > before {
		held = time.Duration(l.hold.end - t)
		r.refuse(l, now)
	}
	if changed {
		p.loosen()
		r.changed(l, now)
	} else {
		l.refresh(t)
	}
	return held
}

// again is how soon after a hold a refusal that tells nothing but another wait
// shows that calls come too fast, and not that they came too soon: to wait is
// not enough then, for all who waited leave at once.
const again = 10 * time.Second

// throttle tells whether a wait that comes with the status is an order.
func throttle(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusForbidden:
		return true
	}
	return false
}

// changed brings a change of what l may do to those who wait.
func (r *room) changed(l *line, now time.Time) {
	if l.calls() > 0 {
		r.wakeLine(l, now)
	}
	l.refresh(l.pacer.clock(now))
}

// refuse sends away who waits in l and can, as it is now, not leave in time.
func (r *room) refuse(l *line, now time.Time) {
	t := l.pacer.clock(now)
	ahead := int64(0)
	for p, next := l.first(), (*place)(nil); p != nil; p = next {
		next = l.after(p)
		w := p.waiter
		if !l.bucket.fits(p.n) {
			w.refuse(r, now, &tooLarge{p.n, l.bucket.burst})
			continue
		}
		at, why := l.soonest(t, ahead, p.n)
		if w.tooLate(now.Add(time.Duration(at - t))) {
			jitter := l.hasten(t)
			if soon, _ := l.soonest(t, ahead, p.n); !w.tooLate(now.Add(time.Duration(soon - t))) {
				at = soon
			} else {
				l.relax(jitter)
			}
		}
		if wait := time.Duration(at - t); w.tooLate(now.Add(wait)) {
			w.refuse(r, now, w.late(now, wait, p.key, why))
			continue
		}
		if len(w.places) == 1 {
			ahead = later(ahead, p.n)
		}
	}
}

// Learnt returns how many units of key may leave in a second after refusals that
// told no numbers, and whether such a pace is in force. It is below Rate, if there
// is one, for as long as the provider refuses.
func (p *Pacer) Learnt(key string) (perSecond float64, ok bool) {
	r := p.lock()
	defer r.mu.Unlock()
	l := p.known(key)
	if l == nil || !l.learnt.on() {
		return 0, false
	}
	return l.learnt.learner.Rate(), true
}
