package rule

import "time"

type calendar struct{}

// NewCalendar admits quota units in every day, or month, of the zone.
func NewCalendar(quota int64, month bool, zone *time.Location) (*Rule, error) {
	return &Rule{kind: Calendar, quota: quota, calendar: &calendar{}}, nil
}

func (r *Rule) takeCalendar(s State, now, cost int64) (State, Verdict) { panic("later") }
