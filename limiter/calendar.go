package limiter

import (
	"fmt"
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// Period is a period of the calendar.
type Period int

const (
	Day   Period = iota + 1 // from midnight to midnight, be it 23 or 25 hours
	Month                   // from the first to the first
)

// Quota admits quota units in each period of the calendar in zone loc, nil being
// UTC. A [Memory] forgets what was used when the process ends, as it forgets
// everything; for a month that may matter.
func Quota(name string, quota int64, period Period, loc *time.Location) (*Limit, error) {
	if period != Day && period != Month {
		return nil, fmt.Errorf("limiter: Quota %q: period %d is neither Day nor Month", name, period)
	}
	if loc == nil {
		loc = time.UTC
	}
	r, err := rule.NewCalendar(quota, period == Month, loc)
	l, err := newLimit("Quota", name, r, err)
	if err == nil {
		l.period, l.zone = period, loc
	}
	return l, err
}
