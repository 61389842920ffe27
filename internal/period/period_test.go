package period

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func zone(t *testing.T, name string) *time.Location {
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

// Where clocks are set at midnight the day begins when they show midnight or
// later for the first time.
func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		unit       Unit
		zone, at   string
		start, end string
		hours      float64
		special    string
	}{
		{Day, "UTC", "2026-03-01T12:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z", 24, ""},
		{Day, "America/New_York", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", 23, "clocks go forward"},
		{Day, "America/New_York", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25, "clocks go back"},
		{Day, "Africa/Cairo", "2026-04-24T12:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z", 23, "there is no midnight"},
		{Day, "America/Havana", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25, "midnight comes twice"},
		{Day, "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", 24, "the 30th is skipped"},
		{Week, "UTC", "2026-03-01T12:00:00Z", "2026-02-23T00:00:00Z", "2026-03-02T00:00:00Z", 7 * 24, "a Sunday ends it"},
		{Month, "UTC", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", 29 * 24, ""},
		{Month, "Europe/Berlin", "2026-03-31T21:59:59Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z", 31*24 - 1, ""},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		require.NoError(t, err)
		start, end := c.unit.Of(at, zone(t, c.zone))
		assert.Equal(t, c.start, start.UTC().Format(time.RFC3339), "%s %s %s", c.zone, c.at, c.special)
		assert.Equal(t, c.end, end.UTC().Format(time.RFC3339), "%s %s", c.zone, c.at)
		assert.Equal(t, c.hours, end.Sub(start).Hours(), "%s %s", c.zone, c.at)
	}
}

// Every instant lies in exactly one period.
func TestPeriodsTileTime(t *testing.T) {
	for _, name := range []string{
		"UTC", "America/New_York", "America/Santiago", "America/Havana", "America/Asuncion", "America/Sao_Paulo",
		"America/St_Johns", "Pacific/Apia", "Pacific/Chatham", "Asia/Beirut", "Asia/Kathmandu", "Asia/Gaza",
		"Africa/Cairo", "Africa/Casablanca", "Australia/Lord_Howe", "Atlantic/Azores", "Europe/Dublin", "Antarctica/Troll",
	} {
		z := zone(t, name)
		for _, unit := range []Unit{Day, Week, Month} {
			from := time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC)
			_, last := unit.Of(from, z)
			for last.Before(from.AddDate(4, 0, 0)) {
				start, end := unit.Of(last, z)
				if !start.Equal(last) || !end.After(start) {
					t.Fatalf("%s: after %v comes [%v, %v)", name, last, start, end)
				}
				for _, in := range []time.Time{end.Add(-1), start.Add(end.Sub(start) / 2)} {
					if s, e := unit.Of(in, z); !s.Equal(start) || !e.Equal(end) {
						t.Fatalf("%s: %v is in [%v, %v), not in [%v, %v)", name, in, s, e, start, end)
					}
				}
				last = end
			}
		}
	}
}
