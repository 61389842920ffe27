package quota

import (
	"context"
	"math"
	"time"

	"github.com/politehttp/polite/headerparse"
)

// lateAnswers is how long after a period's start an answer that names no reset
// may still tell the old period's count.
const lateAnswers = time.Minute

// Observe lets the provider's own count correct ours, from what an answer told.
// A zero now reads the clock if it is needed.
//
// The limit that belongs to this quota is the one called Name; without one, the
// only limit counted in requests whose window is as long as the period (Month:
// 28 to 31 days), unless the quota has a Cost and so counts something else. It is passed over if it tells no remaining amount, a percentage,
// or a window of another length; and if the reset that it tells is nearer to
// this period's start than to its end, for then it speaks of another period: an
// answer that was late, or a provider that begins its days at another hour.
// Without a reset it is passed over in the first minute (or tenth) of a period.
//
// If the provider has less left than we do, others spend of the same limit, and
// what is left falls to what it says. If it has more, ours stands: the count
// holds calls that are still under way, and answers overtake each other. So
// within one period the provider only lowers what is left. If the store fails
// the count stays as it is, and the next answer corrects it.
func (q *Quota) Observe(ctx context.Context, key string, s headerparse.Signal, now time.Time) {
	if len(s.Limits) == 0 || len(key) > maxName {
		return
	}
	r := q.setup()
	if r.err != nil || q.Limit < 0 {
		return
	}
	if now.IsZero() {
		now = time.Now()
	}
	t := q.tally(r, key, now)
	told := q.own(s.Limits)
	if told == nil || !speaksOf(told.Reset, t, now) {
		return
	}
	remaining := int64(math.Min(told.Remaining, 1<<62))
	atLeast := t.Limit - remaining
	if atLeast <= 0 || q.levels.knows(key, t.Start, atLeast) {
		return
	}
	used, err := r.store.Settle(context.WithoutCancel(ctx), t, 0, atLeast)
	if err != nil {
		return
	}
	l := q.left(t, used, 0)
	q.noticed(ctx, r, &l, used, now)
}

// own returns the limit that belongs to this quota, or nil.
func (q *Quota) own(limits []headerparse.Limit) *headerparse.Limit {
	var alike *headerparse.Limit
	several := false
	for i := range limits {
		l := &limits[i]
		long := l.Window > 0 && q.isLong(l.Window)
		switch {
		case !(l.Remaining >= 0), l.Unit == "percent", l.Window > 0 && !long:
		case q.Name != "" && l.Name == q.Name:
			return l
		case long && q.Cost == nil && (l.Unit == "" || l.Unit == "requests"):
			several = several || alike != nil
			alike = l
		}
	}
	if several {
		return nil
	}
	return alike
}

// isLong reports whether a window is as long as the quota's period.
func (q *Quota) isLong(window time.Duration) bool {
	const day = 24 * time.Hour
	switch q.Period {
	case 0:
		return false
	case Day:
		return window == day
	case Week:
		return window == 7*day
	case Month:
		return window >= 28*day && window <= 31*day
	}
	return window == time.Duration(q.Period)
}

// speaksOf reports whether a count that resets after so long is this period's.
func speaksOf(reset time.Duration, t Tally, now time.Time) bool {
	if t.End.IsZero() {
		return reset < 0
	}
	length, into := t.End.Sub(t.Start), now.Sub(t.Start)
	if reset < 0 {
		return into >= min(lateAnswers, length/10)
	}
	off := into + reset - length // from the end
	return off > -length/2 && off < length/2
}
