package rule

import (
	"errors"
	"sync/atomic"
	"time"
)

// calendar finds the days or months of a zone.
type calendar struct {
	month bool
	zone  *time.Location
	last  atomic.Pointer[interval] // as looking it up takes a microsecond
}

// interval is one period: [start, end).
type interval struct{ start, end int64 }

// NewCalendar admits quota units in every day, or month, of the zone.
//
// State.A is the end of the period and State.B the units charged in it.
func NewCalendar(quota int64, month bool, zone *time.Location) (*Rule, error) {
	if err := checkWindow(quota, 1); err != nil {
		return nil, err
	}
	if zone == nil {
		return nil, errors.New("no time zone")
	}
	return &Rule{kind: Calendar, quota: quota, calendar: &calendar{month: month, zone: zone}}, nil
}

func (r *Rule) takeCalendar(s State, now, cost int64) (State, Verdict) {
	period := r.calendar.at(now)
	if s.A > period.end {
		// The clock has stepped back. Back across one midnight, units stay charged
		// to the period that they were charged to; back by more they are this one's.
		if s.A > r.calendar.find(period.end).end {
			s.A = period.end
		}
	}
	at := s
	if at.A <= now {
		at = State{A: now}
	}
	next, v := r.count(at, now, cost)
	if v.Retry > 0 || cost <= 0 {
		return s, v
	}
	if at.A == now {
		next.A = period.end
		v.Reset = next.A - now
	}
	return next, v
}

// at returns the period that now falls into.
func (c *calendar) at(now int64) interval {
	if p := c.last.Load(); p != nil && p.start <= now && now < p.end {
		return *p
	}
	p := c.find(now)
	c.last.Store(&p)
	return p
}

func (c *calendar) find(now int64) interval {
	t := time.Unix(0, now)
	y, m, d := t.In(c.zone).Date()
	// The date may lag behind the period: a clock set back from 00:01 to 23:01
	// shows yesterday's date in a day that has begun. So look from the period
	// after next backwards. A date that the zone skipped is an empty period.
	end := c.begin(y, m, d, 2)
	for n := 1; ; n-- {
		start := c.begin(y, m, d, n)
		if !t.Before(start) {
			return interval{start.UnixNano(), end.UnixNano()}
		}
		end = start
	}
}

// begin returns the first instant of the nth period after the one with this date.
func (c *calendar) begin(y int, m time.Month, d, n int) time.Time {
	if c.month {
		return dawn(time.Date(y, m+time.Month(n), 1, 0, 0, 0, 0, time.UTC), c.zone)
	}
	return dawn(time.Date(y, m, d+n, 0, 0, 0, 0, time.UTC), c.zone)
}

// dawn returns the first instant at which clocks in zone show midnight or later,
// where midnight is what they show written as if it were UTC. Some zones change
// their clocks at midnight, so that it does not happen, or happens twice, and
// then time.Date does not say which instant it returns. So this goes through the
// zone's changes, from before any midnight: no zone was ever 16 hours ahead.
func dawn(midnight time.Time, zone *time.Location) time.Time {
	t := midnight.Add(-16 * time.Hour)
	for {
		_, offset := t.In(zone).Zone()
		at := midnight.Add(-time.Duration(offset) * time.Second)
		if !at.After(t) {
			return t
		}
		_, change := t.In(zone).ZoneBounds()
		// On the last day of a leap year Go 1.26 answers with an end that has passed,
		// in zones that follow a rule. No change is near then.
		if !change.After(t) || at.Before(change) {
			return at
		}
		t = change.UTC()
	}
}
