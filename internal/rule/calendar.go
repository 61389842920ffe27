package rule

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/internal/period"
)

// calendar finds the days or months of a zone.
type calendar struct {
	unit period.Unit
	zone *time.Location
	last atomic.Pointer[interval] // as looking it up takes a microsecond
}

// interval is one period: [start, end).
type interval struct{ start, end int64 }

// mostAhead is by how many seconds clocks of a zone may differ from UTC. None ever
// did by more than 15 h 14 min.
const mostAhead = 16 * 60 * 60

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
	if _, ahead := time.Unix(0, 0).In(zone).Zone(); ahead > mostAhead || ahead < -mostAhead {
		return nil, fmt.Errorf("zone %v is %v from UTC: a zone's clocks may differ by %v at most", zone, time.Duration(ahead)*time.Second, mostAhead*time.Second)
	}
	unit := period.Day
	if month {
		unit = period.Month
	}
	return &Rule{kind: Calendar, quota: quota, calendar: &calendar{unit: unit, zone: zone}}, nil
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
	start, end := c.unit.Of(time.Unix(0, now), c.zone)
	return interval{start.UnixNano(), end.UnixNano()}
}
