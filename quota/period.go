package quota

import (
	"time"

	"github.com/politehttp/polite/internal/period"
)

// Period is how long a quota runs before it starts anew: [Day], [Week], [Month],
// or a positive length, whose periods start at its multiples since 1970-01-01
// 00:00 UTC. Zero: it never does.
type Period time.Duration

// The periods of the calendar, in the quota's Location.
const (
	Day   Period = -1 // from midnight to midnight, be it 23 or 25 hours
	Week  Period = -2 // from Monday to Monday
	Month Period = -3 // from the first to the first
)

// interval is one period: [start, end).
type interval struct{ start, end time.Time }

func (i interval) holds(t time.Time) bool { return !t.Before(i.start) && t.Before(i.end) }

// interval returns the period that t falls into, in UTC.
func (p Period) interval(t time.Time, zone *time.Location) interval {
	if p > 0 {
		since := t.Sub(time.Unix(0, 0))
		into := since % time.Duration(p)
		if into < 0 {
			into += time.Duration(p)
		}
		start := time.Unix(0, 0).UTC().Add(since - into)
		return interval{start, start.Add(time.Duration(p))}
	}
	start, end := units[p].Of(t, zone)
	return interval{start, end}
}

var units = map[Period]period.Unit{Day: period.Day, Week: period.Week, Month: period.Month}
