package quota

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/politehttp/polite/observe"
)

// noticed draws the conclusions from a new count: the forecast, and whether what
// is left has become low.
func (q *Quota) noticed(ctx context.Context, r *ready, l *Left, used int64, now time.Time) {
	since, before := l.Starts, int64(0)
	if q.Period == 0 {
		since, before = q.levels.first(l, used-l.Amount, now, bound(q.MaxKeys, defaultMaxKeys))
	}
	if r.limit != math.MaxInt64 {
		l.SpentAt = forecast(now, since, l.Resets, used-before, l.Left)
	}
	if r.far {
		q.levels.saw(l, used, bound(q.MaxKeys, defaultMaxKeys))
	}
	if l.Left > r.low || !q.levels.becomesLow(l, bound(q.MaxKeys, defaultMaxKeys)) {
		return
	}
	if q.OnLow != nil {
		q.OnLow(*l)
	}
	if h := observe.From(ctx); h != nil && h.QuotaLow != nil {
		h.QuotaLow(ctx, l.event())
	}
}

func (q *Quota) reportSpent(ctx context.Context, l *Left) {
	if h := observe.From(ctx); h != nil && h.QuotaSpent != nil {
		h.QuotaSpent(ctx, l.event())
	}
}

func (l *Left) event() observe.Quota {
	return observe.Quota{Quota: l.Quota, Key: l.Key, Limit: l.Limit, Left: l.Left, Resets: l.Resets}
}

// forecast returns when what is left will be spent, if it goes on as it did
// since the given instant, in which used was spent. Zero: not before resets.
func forecast(now, since, resets time.Time, used, left int64) time.Time {
	if left <= 0 {
		return now
	}
	if used <= 0 {
		return time.Time{}
	}
	in := float64(now.Sub(since)) * (float64(left) / float64(used))
	if in <= 0 || in >= math.MaxInt64 {
		return time.Time{}
	}
	at := now.Add(time.Duration(in))
	if !resets.IsZero() && !at.Before(resets) {
		return time.Time{}
	}
	return at
}

// levels remembers per key what was already said of the current period. What it
// forgets at its bound is said, or asked, once more.
type levels struct {
	mu    sync.Mutex
	byKey map[string]*level
}

type level struct {
	start time.Time
	low   bool      // reported
	seen  int64     // the count when it was last met
	first time.Time // with base: the first spending met, where no period has a start
	base  int64
}

// becomesLow says once per period that what is left is low.
func (ls *levels) becomesLow(l *Left, most int) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	v := ls.level(l.Key, l.Starts, most)
	if v == nil || v.low {
		return false
	}
	v.low = true
	return true
}

// first returns when this process first spent of a quota that never starts anew,
// and what had been used before.
func (ls *levels) first(l *Left, before int64, now time.Time, most int) (time.Time, int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	v := ls.level(l.Key, l.Starts, most)
	if v == nil {
		return now, before
	}
	if v.first.IsZero() {
		v.first, v.base = now, before
	}
	return v.first, v.base
}

func (ls *levels) saw(l *Left, used int64, most int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if v := ls.level(l.Key, l.Starts, most); v != nil {
		v.seen = used
	}
}

// knows reports whether the count was already met at or over used.
func (ls *levels) knows(key string, start time.Time, used int64) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	v := ls.byKey[key]
	return v != nil && v.start.Equal(start) && v.seen >= used
}

// level returns what is remembered of the key in the period that starts at
// start: nil if a later period is known, since the past has nothing to say.
func (ls *levels) level(key string, start time.Time, most int) *level {
	v := ls.byKey[key]
	switch {
	case v != nil && v.start.After(start):
		return nil
	case v != nil && v.start.Equal(start):
		return v
	case v != nil:
		*v = level{start: start}
		return v
	}
	if ls.byKey == nil {
		ls.byKey = make(map[string]*level)
	}
	if len(ls.byKey) >= most {
		ls.forget(start)
	}
	v = &level{start: start}
	ls.byKey[key] = v
	return v
}

// forget drops one key of a few: one of an earlier period if there is one.
func (ls *levels) forget(start time.Time) {
	victim, tries := "", 0
	for key, v := range ls.byKey {
		victim = key
		if tries++; tries == 8 || v.start.Before(start) {
			break
		}
	}
	delete(ls.byKey, victim)
}
