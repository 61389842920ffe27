package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/limiter"
)

// maxLevels is of how many keys under Local the level is remembered.
const maxLevels = 1 << 16

// closedFor is when a refusal of limiter.Closed says to come back, unless the
// circuit stays open for longer.
const closedFor = time.Second

// A JunkError says that a Redis key of the Store's holds something else: a value
// that no Store wrote, or one that a newer version did. It is neither read nor
// replaced, however long it is, and the limit's OnFailure answers for that key's
// decisions.
type JunkError struct{ Key string }

// Error names the key.
func (e *JunkError) Error() string {
	return fmt.Sprintf("redisstore: the Redis key %q does not hold a value of this version: delete it, or use a Prefix of your own", e.Key)
}

// errOutside says that the clock of Redis went from one period of the calendar
// to another twice within one decision.
var errOutside = errors.New("redisstore: the clock of Redis is being set")

// degraded decides by the limits' policies, since Redis has failed with err.
func (s *Store) degraded(ctx context.Context, st *stack, err error) limiter.Decision {
	of := make([]limiter.Decision, len(st.seats))
	allowed, never := true, false
	var shares []limiter.Charge
	var places []int
	for i := range st.seats {
		c := &st.seats[i]
		d := &of[i]
		*d = limiter.Decision{Allowed: true, By: c.limit, Quota: c.limit.Quota(), Remaining: c.limit.Quota(), Degraded: err}
		switch {
		case max(c.cost, 1) > d.Quota: // whatever Redis would say
			d.Allowed, d.Never, d.RetryAfter = false, true, math.MaxInt64
			never = true
		case c.limit.OnFailure == limiter.Closed:
			d.Allowed, d.Remaining, d.RetryAfter = false, 0, comeBack(err)
		case c.limit.OnFailure == limiter.Local:
			share := s.share(c, st.keys[i])
			if share == nil {
				d.Allowed, d.Remaining, d.RetryAfter = false, 0, comeBack(err)
				break
			}
			shares = append(shares, share.Charge(c.key, c.cost))
			places = append(places, i)
		}
		allowed = allowed && d.Allowed
	}
	if len(shares) > 0 {
		allowed = s.takeLocal(ctx, of, shares, places, allowed)
	}
	d := of[0]
	if len(st.charges) > 1 {
		d = st.join(of, allowed)
	}
	d.Degraded = err
	if never && d.Never {
		d.Degraded = nil // no policy has decided that
	}
	if d.Degraded != nil && s.OnDegraded != nil {
		s.OnDegraded(err)
	}
	return d
}

// comeBack is when Redis may be asked again.
func comeBack(err error) time.Duration {
	var open *breaker.OpenError
	if errors.As(err, &open) {
		return max(open.RetryAfter, closedFor)
	}
	return closedFor
}

// takeLocal charges shares, if all other limits have admitted; otherwise it asks.
func (s *Store) takeLocal(ctx context.Context, of []limiter.Decision, shares []limiter.Charge, places []int, allowed bool) bool {
	if !allowed {
		for i := range shares {
			shares[i].Cost = 0
		}
	}
	d, err := s.local.Take(context.WithoutCancel(ctx), shares...)
	if err != nil {
		return false // no share makes this happen
	}
	each := d.Each
	if len(shares) == 1 {
		each = []limiter.Decision{d}
	}
	for j, i := range places {
		by, quota, why := of[i].By, of[i].Quota, of[i].Degraded
		of[i] = each[j]
		of[i].By, of[i].Quota, of[i].Degraded, of[i].Each = by, quota, why, nil
		if of[i].Never { // for this share, but not for the whole
			of[i].Never, of[i].RetryAfter = false, comeBack(why)
		}
	}
	return allowed && d.Allowed
}

// refundLocal gives back what may have been charged to shares.
func (s *Store) refundLocal(st *stack) {
	for i := range st.seats {
		c := &st.seats[i]
		if share := s.shares.of(c.plan, s.processes()); share != nil && c.limit.OnFailure == limiter.Local {
			_ = s.local.Refund(context.Background(), share.Charge(c.key, c.cost))
		}
	}
}

// share returns this process's share of a limit, or nil if that is less than one
// unit. Of the key it has used at least its share of what was last known to be.
func (s *Store) share(c *seat, redisKey string) *limiter.Limit {
	share := s.shares.of(c.plan, s.processes())
	if share == nil {
		return nil
	}
	if k := s.levels.find(redisKey, c.specFor(c.key)); k != nil {
		k.share.Do(func() {
			ctx := context.Background()
			left := c.left(k, time.Now()) / s.processes()
			if d, err := s.local.Take(ctx, share.Charge(c.key, 0)); err == nil && d.Remaining > left {
				_, _ = s.local.Take(ctx, share.Charge(c.key, d.Remaining-left))
			}
		})
	}
	return share
}

// after is the level of the seat after an answer.
func (c *seat) after(a answer, i int, sent time.Time) *known {
	k := &known{spec: c.specFor(c.key), level: a.levels[i], now: a.now, at: sent}
	if !a.charged || c.cost == 0 {
		return k
	}
	if c.rule.Long() {
		k.level.total += c.cost
		k.level.last = c.stamp(a.now)
		return k
	}
	k.level.state, _ = c.rule.Take(k.level.state, c.at(c.key, a.now), c.cost)
	return k
}

// left is what would be left now, of what is known.
func (c *seat) left(k *known, now time.Time) int64 {
	at := k.redisNow(now)
	if c.rule.Long() {
		if k.level.last+c.rule.Window() <= at {
			return c.rule.Quota()
		}
		return max(c.rule.Quota()-k.level.total, 0)
	}
	return c.verdict(k.level, c.key, at, 0).Remaining
}

// shares has the share of each limit under Local. As in Redis a limit is known by
// its name and numbers, and one with other numbers takes over what is in use: of
// the last numbers that were new.
type shares struct {
	mu     sync.Mutex
	known  map[shareKey]*limiter.Limit
	latest map[string]*limiter.Limit // by name
}

type shareKey struct{ name, kind, spec string }

// of returns one process's share of a limit, nil if that is less than one unit.
func (s *shares) of(p *plan, processes int64) *limiter.Limit {
	if share := p.share.Load(); share != nil {
		return share
	}
	key := shareKey{p.limit.Name(), p.limit.Kind(), p.spec}
	s.mu.Lock()
	defer s.mu.Unlock()
	share, ok := s.known[key]
	if !ok {
		if share = shareOf(p.limit, processes); share != nil {
			share = share.Replacing(s.latest[key.name])
		}
		s.keep(key, share)
	}
	p.share.Store(share)
	return share
}

func (s *shares) keep(key shareKey, share *limiter.Limit) {
	if s.known == nil {
		s.known, s.latest = map[shareKey]*limiter.Limit{}, map[string]*limiter.Limit{}
	}
	if len(s.known) >= maxPlans {
		for any, old := range s.known {
			delete(s.known, any)
			if s.latest[any.name] == old {
				delete(s.latest, any.name)
			}
			break
		}
	}
	s.known[key] = share
	if share != nil {
		s.latest[key.name] = share
	}
}

// shareOf divides the quota, or the burst and the rate, rounding down.
func shareOf(l *limiter.Limit, processes int64) *limiter.Limit {
	quota, rate := l.Quota()/processes, l.Rate()
	if quota == 0 {
		return nil
	}
	if int64(rate.Per) <= math.MaxInt64/processes {
		rate.Per *= time.Duration(processes)
	} else {
		rate.Count /= processes
	}
	var share *limiter.Limit
	var err error
	switch l.Kind() {
	case rule.FixedWindow.String():
		share, err = limiter.FixedWindow(l.Name(), quota, l.Window(), l.Align())
	case rule.SlidingCounter.String():
		share, err = limiter.SlidingCounter(l.Name(), quota, l.Window())
	case rule.SlidingLog.String():
		share, err = limiter.SlidingLog(l.Name(), quota, l.Window())
	case rule.SlidingBuckets.String():
		share, err = limiter.SlidingBuckets(l.Name(), quota, l.Window(), l.Cells())
	case rule.TokenBucket.String():
		share, err = limiter.TokenBucket(l.Name(), rate, quota)
	case rule.LeakyMeter.String():
		share, err = limiter.LeakyMeter(l.Name(), rate, quota)
	case rule.LeakyQueue.String():
		share, err = limiter.LeakyQueue(l.Name(), rate, quota)
	case rule.Calendar.String():
		period, zone := l.Calendar()
		share, err = limiter.Quota(l.Name(), quota, period, zone)
	}
	if err != nil {
		return nil
	}
	return share
}
