package redisstore

import (
	"fmt"
	"time"

	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/limiter"
)

// Redis counts in doubles, which hold whole numbers up to 2^53, and tells the
// time in microseconds. What does not come out exactly in those is refused
// here, before anything is sent.
const (
	maxExact = 1 << 53
	// maxQuota bounds the units of one key, so that sums of two are exact.
	maxQuota = 1 << 52
	// maxSpan is 71 years: now and two windows more, or one drained bucket, are
	// exact until the year 2112.
	maxSpan = 1 << 51
	// MaxEntries bounds what Redis keeps of one key of a limiter.SlidingLog, its
	// quota, and of a limiter.SlidingBuckets, its cells: each has 16
	// bytes, which are copied at each charge. Memory has 10,000.
	MaxEntries = 1_000
)

// micros returns the rule of l in microseconds; a calendar's in nanoseconds, as
// it asks the time zone.
func micros(l *limiter.Limit) (r *rule.Rule, err error) {
	window, quota := int64(l.Window()), l.Quota()
	if quota > maxQuota {
		return nil, inexact(l, "quota %d is not exact in Redis: it may be %d at most", quota, int64(maxQuota))
	}
	switch l.Kind() {
	case "token_bucket", "leaky_meter", "leaky_queue":
		return microBucket(l)
	case "calendar":
		period, zone := l.Calendar()
		return rule.NewCalendar(quota, period == limiter.Month, zone)
	}
	if window%1000 != 0 {
		return nil, inexact(l, "window of %v: Redis tells the time in microseconds, so it must be a whole number of them", l.Window())
	}
	window /= 1000
	switch l.Kind() {
	case "fixed_window":
		return rule.NewFixedWindow(quota, window, rule.Align(l.Align()))
	case "sliding_counter":
		return rule.NewSlidingCounter(quota, window)
	case "sliding_log":
		if quota > MaxEntries {
			return nil, inexact(l, "quota %d: Redis keeps each request of a log, so it may be %d at most", quota, MaxEntries)
		}
		return rule.NewSlidingLog(quota, window)
	case "sliding_buckets":
		if l.Cells() > MaxEntries {
			return nil, inexact(l, "%d cells: in Redis there may be %d at most", l.Cells(), MaxEntries)
		}
		if window%int64(l.Cells()) != 0 {
			return nil, inexact(l, "%d cells do not divide the window of %v into whole microseconds", l.Cells(), l.Window())
		}
		return rule.NewSlidingBuckets(quota, window, l.Cells())
	}
	return nil, inexact(l, "the rule %q is not known here", l.Kind())
}

// microBucket turns count units per period into leaks each microsecond. That is
// exact at every rate, as both are whole numbers once reduced.
func microBucket(l *limiter.Limit) (*rule.Rule, error) {
	leaks, weight, ok := reduced(l.Rate())
	quota := l.Quota()
	switch {
	case !ok || leaks > maxExact/4 || weight > maxExact/4:
		return nil, inexact(l, "a rate of %v is not exact in Redis", l.Rate())
	case quota > (maxExact-2*leaks)/weight:
		return nil, inexact(l, "%d units at %v are not exact in Redis: there may be %d at most", quota, l.Rate(), (maxExact-2*leaks)/weight)
	case quota*weight/leaks > maxSpan:
		return nil, inexact(l, "%d units at %v take %v to fill: %v are the most that is exact in Redis", quota, l.Rate(), l.Window(), maxSpan*time.Microsecond)
	}
	return rule.NewBucket(kinds[l.Kind()], leaks, weight, quota)
}

var kinds = map[string]rule.Kind{
	"token_bucket": rule.TokenBucket,
	"leaky_meter":  rule.LeakyMeter,
	"leaky_queue":  rule.LeakyQueue,
}

// reduced returns r as leaks a microsecond, of which a unit is weight, in lowest
// terms. It reports false if they do not fit.
func reduced(r limiter.Rate) (leaks, weight int64, ok bool) {
	g := gcd(r.Count, int64(r.Per))
	leaks, weight = r.Count/g, int64(r.Per)/g
	g = gcd(1000, weight)
	weight /= g
	if leaks > maxExact/(1000/g) {
		return 0, 0, false
	}
	return leaks * (1000 / g), weight, true
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func inexact(l *limiter.Limit, format string, args ...any) error {
	return fmt.Errorf("redisstore: limit %q: "+format, append([]any{l.Name()}, args...)...)
}
