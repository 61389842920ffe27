// Package pacer decides when the next call may leave.
//
//	release, err := p.Wait(ctx, "account-7", 1)
//	if err != nil {
//		return err // nothing was taken
//	}
//	defer release()
//	// the call
//
// A call waits in the line of its key until all of this lets it leave:
//
//	           ┌─ hold       nobody before an instant: Hold, a told wait, a spent limit
//	           ├─ rate       Rate and Burst, or evenly (LeakyBucket); Shared: with others
//	Wait ─ key ┼─ learnt     a rate found from refusals that tell no numbers (CUBIC)
//	           ├─ spread     little is left: that, evenly until its reset
//	           │             a limit was spent: from then on, what it gives
//	           └─ in flight  MaxInFlight calls at most between Wait and release, or
//	                         as many as are found to be accepted (AdaptInFlight)
//
// # Which to choose
//
//	you know the rate, and bursts are fine     Rate and Burst, see Within
//	you know the rate, and bursts are refused  Shape: LeakyBucket
//	you know nothing                           the zero Pacer, and Observe each answer
//	it is overloaded, not counting             AdaptInFlight, and Adapt for each answer
//	two limits count one call                  WaitAll, a pacer for each
//	many processes use one account             Shared
//	bytes, not calls                           Reader
//
// Timers of an idle Go process are a millisecond coarse, and units that a
// sleeper missed come back only from what the bucket holds: LeakyBucket, and a
// Burst of less than 5 ms of the rate, run slow by that. The default is 5 ms.
//
// # What is guaranteed
//
// In any interval T, by the pacer's own stamps (the clock, read under its lock
// at the grant; see observe.Paced), at most Burst + Rate × T units of a key
// leave, however late sleepers wake: units are taken by the call itself, as it
// leaves, and never reserved ahead. With LeakyBucket departures are at least
// n × Per/Count apart. With Shared the instants that the store grants carry the
// guarantee; while the store fails, each process keeps the pace by itself.
//
// Calls of one class and the same keys leave in the order of their arrival.
// Interactive calls leave before Background ones, but for one in ten. A call
// that needs two keys takes from none until both are ready, and lets others go
// before it meanwhile; after a second they may no longer delay it.
//
// A call that would outlive its deadline or MaxWait is refused before it waits,
// given the queue before it, and one that would leave too late for its answer,
// if [Pacer.Took] knows. What is refused or cancelled costs nothing, and
// whoever follows moves up. SetRate and Hold reach those who wait already.
// [Forecast] tells beforehand when a call would leave.
//
// Keys are bounded by MaxKeys, calls that wait by MaxQueue. The pacer starts no
// goroutine; a timer runs only while somebody waits.
package pacer

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/observe"
)

// Pacer lets calls leave, key by key, no faster than they may. Its zero value
// sets no fixed rate, obeys holds and learns. Fields must not change after the
// first use; what may change has a method. It must not be copied.
type Pacer struct {
	// Rate is how many units a key may send. Zero: no fixed rate.
	Rate Rate
	// Burst is how many units may leave at once after idle time, with
	// TokenBucket. Zero, or negative: what the rate gives in 5 ms, at least 1,
	// and at least the n asked.
	Burst int64
	// Shape is TokenBucket, the zero value, or LeakyBucket.
	Shape Shape
	// TrustRate says that Rate is known to be right: refusals that tell no number
	// slow nobody down, and only what the provider tells is obeyed. For one that
	// answers 503 to some calls whatever the pace, which would otherwise be taken
	// for a lower limit, and slow a key down to a fraction of Rate. It needs a Rate.
	TrustRate bool
	// MaxInFlight is how many calls of a key may be between Wait and release.
	// Zero: unbounded; with AdaptInFlight, 200.
	MaxInFlight int
	// AdaptInFlight finds out how many calls of a key may be in flight, from 1
	// to MaxInFlight, by what [Pacer.Adapt] says of them: 20 to begin with, a
	// tenth less where calls are dropped, and one more for each round trip in
	// which at least half was used and none dropped, twice as many until the
	// first is. A key of which no call left for 5 minutes begins anew. Refusals
	// without a number slow the pace down besides, as they always do.
	AdaptInFlight bool
	// MaxQueue is how many calls may wait, of all keys together; more get
	// ErrQueueFull at once. Zero: 10,000. Negative: unbounded.
	MaxQueue int
	// MaxWait is how long a call may wait; one that would wait longer is
	// refused at once with a *WaitError. Zero: 5 minutes. Negative: unbounded.
	MaxWait time.Duration
	// MaxHold is how long a hold keeps everybody back. Where the provider asks
	// for more, then one call tries, and again after as long, until an answer
	// shows that the hold is over. Zero: 1 hour. Negative: unbounded.
	MaxHold time.Duration
	// SpreadBelow is the share of a quota under which what the provider says
	// is left is spread until the reset. Zero: 0.1. Negative: never, and a limit
	// that was spent is asked again without a pace (see Observe).
	SpreadBelow float64
	// MaxKeys is how many keys have an entry of their own. At the bound the
	// oldest that equals a new one goes; if none does, further keys share
	// entries, and are paced together (see Stats). Zero: 4,096. Negative:
	// unbounded.
	MaxKeys int
	// Shared keeps Rate together with other processes. Nil: this process alone.
	Shared Reserver

	rand func() float64 // of [0, 1); nil: math/rand/v2
	lag  func()         // tests make those who slept late with it
	last atomic.Pointer[line]
	room atomic.Pointer[room]
	keys
}

const (
	defaultMaxQueue    = 10_000
	defaultMaxWait     = 5 * time.Minute
	defaultMaxHold     = time.Hour
	defaultSpreadBelow = 0.1
)

// Wait waits until n units of key may leave. The call leaves at the instant
// Wait returns; the caller calls release exactly once when it is over, which is
// what MaxInFlight counts. A call of no units, or fewer, takes none, but waits
// for its turn like any. A grant is reported to the hooks of ctx
// ([observe.Paced]), but for keys that nothing paces: those cost a few atomic
// operations and no clock reading.
//
// On an error release is nil, and nothing was taken: ErrQueueFull; a
// *[WaitError]; ErrTooLarge; or, once ctx has ended, an error that matches both
// its error and its cause.
func (p *Pacer) Wait(ctx context.Context, key string, n int64) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, endOf(ctx)
	}
	n = max(n, 0)
	if l := p.last.Load(); l != nil && l.key == key && l.free.Load() {
		l.count(n)
		return nothing, nil
	}
	r := p.lock()
	l := p.find(key)
	if l.free.Load() {
		l.count(n)
		r.mu.Unlock()
		return nothing, nil
	}
	now := time.Now()
	t := p.clock(now)
	l.settle(t)
	end, ends := ctx.Deadline() // whose timer may be late
	if l.calls() == 0 && !l.full() && !l.shared(t) && l.bucket.fits(n) && (!ends || now.Before(end)) {
		if at, _ := l.soonest(t, 0, n); at <= t {
			l.take(t, n)
			l.refresh(t)
			r.mu.Unlock()
			if h := observe.From(ctx); h != nil && h.Paced != nil {
				report(ctx, h, l.leave(), observe.Paced{Key: key, N: n, At: now})
			}
			return l.leave(), nil
		}
	}
	w := &waiter{since: now}
	w.places = append(w.one[:0], place{line: l, key: key, n: n})
	return w.wait(ctx, r, now)
}

// Claim is n units of one key of a pacer.
type Claim struct {
	Pacer *Pacer // nil: the claim is none
	Key   string
	N     int64
}

// WaitAll waits until every claim may leave, and takes all at one instant; it
// takes from none before. A pacer and key that are named twice are one claim of
// the sum. While one of its keys is not ready, others go before it in the rest.
// Errors and release are as in [Pacer.Wait]. Each claim is reported to the
// hooks: the one that was ready last with the whole wait and its reason, the
// others as if they had not waited, so that waits may be summed.
func WaitAll(ctx context.Context, claims ...Claim) (release func(), err error) {
	if len(claims) == 1 && claims[0].Pacer != nil {
		return claims[0].Pacer.Wait(ctx, claims[0].Key, claims[0].N)
	}
	if ctx.Err() != nil {
		return nil, endOf(ctx)
	}
	sum := make([]Claim, 0, len(claims))
	for _, c := range claims {
		if c.Pacer != nil {
			sum = add(sum, c)
		}
	}
	switch len(sum) {
	case 0:
		return nothing, nil
	case 1:
		return sum[0].Pacer.Wait(ctx, sum[0].Key, sum[0].N)
	}
	for _, c := range sum[1:] {
		join(sum[0].Pacer, c.Pacer)
	}
	w := &waiter{places: make([]place, 0, len(sum))}
	r := sum[0].Pacer.lock()
	for _, c := range sum {
		c.Pacer.prepare()
		l := c.Pacer.find(c.Key)
		l.pinned = true // or the next claim's new line might take its place
		w.claim(l, c)
	}
	for i := range w.places {
		w.places[i].line.pinned = false
	}
	w.since = time.Now()
	return w.wait(ctx, r, w.since)
}

// add adds c to claims of other keys.
func add(claims []Claim, c Claim) []Claim {
	c.N = max(c.N, 0)
	for i := range claims {
		if b := &claims[i]; b.Pacer == c.Pacer && b.Key == c.Key {
			b.N = later(b.N, c.N)
			return claims
		}
	}
	return append(claims, c)
}

func nothing() {}

// leave returns what counts a call out.
func (l *line) leave() func() {
	if l.release == nil {
		return nothing
	}
	return l.release
}

// land counts a call out.
func (l *line) land() {
	r := l.pacer.lock()
	defer r.mu.Unlock()
	if l.inFlight > 0 {
		l.inFlight--
	}
	if l.aimd != nil {
		l.aimd.ended(l.inFlight)
	}
	if l.inFlight == 0 {
		l.pacer.loosen()
	}
	if l.calls() > 0 {
		r.wakeLine(l, time.Now())
	}
}

func (p *Pacer) maxQueue() int {
	if p.MaxQueue == 0 {
		return defaultMaxQueue
	}
	return p.MaxQueue
}

func (p *Pacer) maxWait() time.Duration {
	if p.MaxWait == 0 {
		return defaultMaxWait
	}
	return p.MaxWait
}

// maxHold is in nanoseconds; zero: unbounded.
func (p *Pacer) maxHold() int64 {
	if p.MaxHold == 0 {
		return int64(defaultMaxHold)
	}
	return int64(max(p.MaxHold, 0))
}

func (p *Pacer) maxKeys() int {
	if p.MaxKeys == 0 {
		return defaultMaxKeys
	}
	return p.MaxKeys
}

func (p *Pacer) spreadBelow() float64 {
	if p.SpreadBelow == 0 {
		return defaultSpreadBelow
	}
	return p.SpreadBelow
}

func (p *Pacer) random() float64 {
	if p.rand == nil {
		return rand.Float64()
	}
	return p.rand()
}
