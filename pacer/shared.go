package pacer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/politehttp/polite/observe"
)

// Reserver is a store that keeps one pace for many processes.
//
// The pacer asks it for one call of a key at a time, in the order in which they
// would leave, and lets the call leave once Grant.Wait has passed; so the
// instants that the store grants carry the guarantee.
type Reserver interface {
	// Reserve grants n units of key at the first instant that p allows, over
	// all processes. One that is further away than maxWait it refuses with a
	// *WaitError, and takes nothing. Any other error means that the store
	// failed: for a while, from 50 ms to half a second the longer it goes on, this
	// process then keeps the pace by itself, at its share of the rate if the
	// Reserver has a method Share() int64 that says how many processes there
	// are, else as if it were alone. The context ends when the call may wait no
	// longer; a store is to heed it.
	Reserve(ctx context.Context, key string, p Pace, n int64, maxWait time.Duration) (Grant, error)
	// Hold makes sure that nobody is granted an instant before d from now.
	Hold(ctx context.Context, key string, d time.Duration) error
}

// Check says what is wrong with the fields: a Rate of which a half is missing, or a
// pace that Shared could not keep, if it has a method CheckPace(Pace) error that
// tells. At run time that would be a store which fails, and this process would
// pace by itself. It sends nothing.
func (p *Pacer) Check() error {
	if r := p.Rate; (r.Count > 0) != (r.Per > 0) {
		return fmt.Errorf("pacer: Pacer.Rate is %d per %v; a rate needs both, as Per(10, time.Second) makes it, and no rate neither", r.Count, r.Per)
	}
	if p.TrustRate && p.Rate.none() {
		return errors.New("pacer: Pacer.TrustRate is set and Pacer.Rate is not; a rate to be trusted is needed")
	}
	shared, ok := p.Shared.(interface{ CheckPace(Pace) error })
	if !ok {
		return nil
	}
	if err := shared.CheckPace(Pace{Rate: p.Rate, Burst: p.Burst, Shape: p.Shape}); err != nil {
		return fmt.Errorf("pacer: Pacer.Shared: %w", err)
	}
	return nil
}

// Pace is what a [Reserver] keeps: the fields of a Pacer.
type Pace struct {
	Rate  Rate
	Burst int64 // zero: as Pacer.Burst says
	Shape Shape
}

// Grant is an instant that a [Reserver] granted.
type Grant struct {
	Wait   time.Duration               // until the call may leave
	Cancel func(context.Context) error // gives the units back as far as it can; nil: cannot
}

const (
	minRest      = int64(50 * time.Millisecond)  // how long a store that failed is left alone,
	maxRest      = int64(500 * time.Millisecond) // twice as long each time
	storeTimeout = time.Second                   // for what no caller waits for
)

// apart spaces calls at this process's share of a pace, while the store fails.
// It is a pure rule.
type apart struct {
	share int64 // how many processes there are; under 2: off
	paid  int64 // the instant by which what has left is paid for; ahead of now by timerSlack at most
	rest  int64 // how long the store is left alone; 0: it is well
}

// begin lets the first call leave at random within the time that a unit takes:
// the store fails for all processes at once.
func (a *apart) begin(now int64, r Rate, shared Reserver, jitter float64) {
	*a = apart{}
	if s, ok := shared.(interface{ Share() int64 }); ok && s.Share() > 1 {
		a.share = s.Share()
		a.paid = later(later(now, int64(timerSlack)), int64(jitter*float64(a.span(r, 1))))
	}
}

// span is the time that n units take.
func (a *apart) span(r Rate, n int64) int64 {
	d, _ := mulDiv(r.span(n), a.share, 1)
	return d
}

func (a *apart) soonest(now, ahead int64, r Rate) int64 {
	if a.share < 2 || r.none() {
		return now
	}
	return max(now, later(a.paid, a.span(r, ahead))-int64(timerSlack))
}

func (a *apart) take(now, n int64, r Rate) {
	if a.share > 1 && !r.none() {
		a.paid = later(max(a.paid, now), a.span(r, n))
	}
}

// errAnew says that a hold or another rate came while w slept.
var errAnew = errors.New("pacer: anew")

// storeError says that the store of a line failed.
type storeError struct {
	line *line
	error
}

// asks tells whether w, which may leave, must ask a store first.
func (w *waiter) asks(now time.Time) bool {
	if w.granted {
		return false
	}
	for i := range w.places {
		if l := w.places[i].line; l.shared(l.pacer.clock(now)) {
			return true
		}
	}
	return false
}

// ask gets the stores' leave for w and sleeps until the instant they grant.
// Then w is granted; or it is to look anew. The room is locked, before and
// after, and free in between.
func (w *waiter) ask(ctx context.Context, r *room, now time.Time) (*room, time.Time, error) {
	paces := w.turn(now)
	rev := w.revision()
	most := w.left(now)
	r.mu.Unlock()
	over := true // a store panicked
	defer func() {
		if over {
			r, now = w.relock()
			_ = w.giveUp(r, now, nil)
		}
	}()
	grants, last, until, err := w.reserve(ctx, paces, most)
	if err == nil {
		sleeps := until.After(time.Now())
		if r, now, err = w.sleep(ctx, until, rev); err == nil {
			for i := range w.places {
				w.places[i].line.apart = apart{}
			}
			w.granted, over = true, false
			if sleeps || w.last == nil {
				w.why, w.last = observe.Pace, last
			}
			return r, now, nil
		}
		r.mu.Unlock()
	}
	for _, g := range grants {
		giveBack(ctx, g)
	}
	over = false
	r, now = w.relock()
	for i := range w.places {
		if l := w.places[i].line; l.turn == w {
			l.turn = nil
		}
	}
	var failed *storeError
	switch {
	case err == errAnew:
		err = nil
	case errors.As(err, &failed):
		t := failed.line.pacer.clock(now)
		l := failed.line
		if l.apart.rest == 0 {
			l.apart.begin(t, l.bucket.pace.Rate, l.pacer.Shared, l.pacer.random())
		}
		l.apart.rest = max(minRest, min(2*l.apart.rest, maxRest))
		l.local = later(t, l.apart.rest)
		l.bucket.keep(t, 1)
		if w.last == nil {
			w.why, w.last = observe.Pace, failed.line
		}
		err = nil
	}
	return r, now, err
}

// turn makes w the one that asks in all its shared lines, and returns their
// paces.
func (w *waiter) turn(now time.Time) []Pace {
	paces := make([]Pace, len(w.places))
	for i := range w.places {
		if l := w.places[i].line; l.shared(l.pacer.clock(now)) {
			l.turn = w
			paces[i] = l.bucket.pace
		}
	}
	return paces
}

// revision changes with the rate of any of w's pacers.
func (w *waiter) revision() (rev int) {
	for i := range w.places {
		rev += w.places[i].line.pacer.rev
	}
	return rev
}

// reserve asks the stores, which may take no longer than most, and returns the
// last of the instants they grant, and which line it is of. What they granted
// is returned with an error too, and is to be given back.
func (w *waiter) reserve(ctx context.Context, paces []Pace, most time.Duration) (grants []Grant, last *line, until time.Time, err error) {
	asking := ctx
	if w.expires() { // a store that hangs must not outlast MaxWait
		var cancel context.CancelFunc
		asking, cancel = context.WithDeadline(ctx, w.until)
		defer cancel()
	}
	for i := range w.places {
		p := &w.places[i]
		if paces[i].Rate.none() {
			continue
		}
		g, err := p.line.pacer.Shared.Reserve(asking, p.key, paces[i], p.n, most)
		var refused *WaitError
		switch {
		case err == nil:
			grants = append(grants, g)
			if at := time.Now().Add(g.Wait); at.After(until) {
				last, until = p.line, at
			}
			if g.Wait > most {
				return grants, last, until, &WaitError{Wait: g.Wait}
			}
		case errors.As(err, &refused):
			return grants, last, until, err
		case ctx.Err() != nil:
			return grants, last, until, endOf(ctx)
		default:
			return grants, last, until, &storeError{p.line, err}
		}
	}
	return grants, last, until, nil
}

// giveBack gives a grant back, whatever became of the caller.
func giveBack(ctx context.Context, g Grant) {
	if g.Cancel == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	_ = g.Cancel(ctx) // at worst the units are lost
}

// left is how long w may still wait.
func (w *waiter) left(now time.Time) time.Duration {
	most := time.Duration(never)
	if !w.until.IsZero() {
		most = w.until.Sub(now)
	}
	if !w.end.IsZero() {
		most = min(most, w.end.Sub(now))
	}
	return max(most, 0)
}

// sleep waits until the instant. The room is locked on return.
func (w *waiter) sleep(ctx context.Context, until time.Time, rev int) (*room, time.Time, error) {
	for {
		r, now := w.relock()
		if r.round++; w.refused != nil || w.revision() != rev || r.judge(w, now) != mayLeave {
			return r, now, errAnew
		}
		if !now.Before(until) {
			return r, now, nil
		}
		r.mu.Unlock()
		t := time.NewTimer(until.Sub(now))
		select {
		case <-t.C:
		case <-w.ready:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			r, now = w.relock()
			return r, now, endOf(ctx)
		}
	}
}
