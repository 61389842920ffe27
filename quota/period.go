package quota

import "time"

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
	// The date may lag behind the period: a clock set back from 00:01 to 23:01
	// shows yesterday's date in a day that has begun. So look from the next one
	// backwards. Where a date was skipped its period is empty, and never found.
	y, m, d := t.In(zone).Date()
	end := p.begin(y, m, d, 2, zone)
	for n := 1; ; n-- {
		start := p.begin(y, m, d, n, zone)
		if !t.Before(start) {
			return interval{start, end}
		}
		end = start
	}
}

// begin returns the first instant of the period n periods after the one with
// the given date.
func (p Period) begin(y int, m time.Month, d, n int, zone *time.Location) time.Time {
	switch p {
	case Month:
		return dawn(time.Date(y, m+time.Month(n), 1, 0, 0, 0, 0, time.UTC), zone)
	case Week:
		monday := d - (int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday())+6)%7
		return dawn(time.Date(y, m, monday+7*n, 0, 0, 0, 0, time.UTC), zone)
	default:
		return dawn(time.Date(y, m, d+n, 0, 0, 0, 0, time.UTC), zone)
	}
}

// dawn returns the first instant at which clocks in zone show midnight or later,
// where midnight is a wall-clock reading written as if it were UTC. time.Date
// does not promise which instant it returns for a midnight that a clock change
// skips or repeats, so this follows the zone's changes from before any midnight
// on: no zone was ever 16 hours ahead of UTC.
func dawn(midnight time.Time, zone *time.Location) time.Time {
	t := midnight.Add(-16 * time.Hour)
	for {
		_, offset := t.In(zone).Zone()
		at := midnight.Add(-time.Duration(offset) * time.Second)
		if !at.After(t) {
			return t
		}
		_, change := t.In(zone).ZoneBounds()
		// An end that has passed is what ZoneBounds (Go 1.26) answers on the last
		// day of a leap year in zones that follow a rule: none is near then.
		if !change.After(t) || at.Before(change) {
			return at
		}
		t = change.UTC()
	}
}
