// Package period finds the days, weeks and months of a time zone. They are
// [start, end): every instant lies in exactly one, and a day has 23, 24 or 25
// hours as the zone has it.
package period

import "time"

// Unit is a period of the calendar.
type Unit int

// The units.
const (
	Day   Unit = iota // from midnight to midnight
	Week              // from Monday to Monday
	Month             // from the first to the first
)

// Of returns the period that t falls into.
func (u Unit) Of(t time.Time, zone *time.Location) (start, end time.Time) {
	// The date may lag behind the period: a clock set back from 00:01 to 23:01
	// shows yesterday's date in a day that has begun. So look from the next one
	// backwards. Where a date was skipped its period is empty, and never found.
	y, m, d := t.In(zone).Date()
	end = u.begin(y, m, d, 2, zone)
	for n := 1; ; n-- {
		start = u.begin(y, m, d, n, zone)
		if !t.Before(start) {
			return start, end
		}
		end = start
	}
}

// begin returns the first instant of the period n periods after the one with
// the given date.
func (u Unit) begin(y int, m time.Month, d, n int, zone *time.Location) time.Time {
	switch u {
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
