package rule

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones, wherever this runs

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func zoneOf(t testing.TB, name string) *time.Location {
	zone, err := time.LoadLocation(name)
	require.NoError(t, err)
	return zone
}

func TestCalendarPeriods(t *testing.T) {
	for _, c := range []struct {
		zone       string
		month      bool
		now        string // RFC 3339
		start, end string
		hours      int
	}{
		{"UTC", false, "2026-02-03T04:05:06Z", "2026-02-03T00:00:00Z", "2026-02-04T00:00:00Z", 24},
		{"UTC", false, "2026-02-03T00:00:00Z", "2026-02-03T00:00:00Z", "2026-02-04T00:00:00Z", 24},
		{"UTC", false, "2026-02-02T23:59:59.999999999Z", "2026-02-02T00:00:00Z", "2026-02-03T00:00:00Z", 24},
		{"UTC", true, "2026-02-28T23:59:59Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z", 28 * 24},
		{"UTC", true, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", 29 * 24},
		{"UTC", true, "2026-12-31T12:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", 31 * 24},
		{"Asia/Kolkata", false, "2026-02-03T18:29:59Z", "2026-02-02T18:30:00Z", "2026-02-03T18:30:00Z", 24},
		// Clocks go forward at 02:00 and back at 02:00: days of 23 and 25 hours.
		{"America/New_York", false, "2026-03-08T12:00:00-04:00", "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00", 23},
		{"America/New_York", false, "2026-11-01T12:00:00-05:00", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00", 25},
		{"America/New_York", true, "2026-03-20T12:00:00-04:00", "2026-03-01T00:00:00-05:00", "2026-04-01T00:00:00-04:00", 31*24 - 1},
		// No midnight: at 00:00 clocks show 01:00, and the day starts then.
		{"America/Santiago", false, "2026-09-06T10:00:00-03:00", "2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00", 23},
		{"America/Santiago", false, "2026-09-06T03:59:59Z", "2026-09-05T00:00:00-04:00", "2026-09-06T01:00:00-03:00", 24},
		// Midnight twice: at 00:00 of Sunday clocks go back to 23:00 of Saturday.
		{"America/Santiago", false, "2026-04-05T03:30:00Z", "2026-04-04T00:00:00-03:00", "2026-04-05T00:00:00-04:00", 25},
		// Set back from 00:01 to 23:01: the day has begun, and does not end again.
		{"America/St_Johns", false, "2006-10-29T02:31:00Z", "2006-10-29T00:00:00-02:30", "2006-10-30T00:00:00-03:30", 25},
		// A date that did not exist: the 30th of December 2011.
		{"Pacific/Apia", false, "2011-12-30T09:00:00Z", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", 24},
		{"Pacific/Apia", false, "2011-12-30T10:00:00Z", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00", 24},
		{"Pacific/Apia", true, "2011-12-30T10:00:00Z", "2011-12-01T00:00:00-10:00", "2012-01-01T00:00:00+14:00", 30 * 24},
		// The last day of a leap year, in a zone that follows a rule.
		{"Europe/Berlin", false, "2040-12-31T12:00:00Z", "2040-12-31T00:00:00+01:00", "2041-01-01T00:00:00+01:00", 24},
	} {
		at := func(s string) int64 {
			x, err := time.Parse(time.RFC3339Nano, s)
			require.NoError(t, err)
			return x.UnixNano()
		}
		r := made(NewCalendar(10, c.month, zoneOf(t, c.zone)))
		p := r.calendar.at(at(c.now))
		assert.Equal(t, interval{at(c.start), at(c.end)}, p, "%s %s", c.zone, c.now)
		assert.EqualValues(t, c.hours, (p.end-p.start)/hour, "%s %s", c.zone, c.now)

		k := keep(r)
		assert.Equal(t, Verdict{Remaining: 6, Reset: p.end - at(c.now)}, k.take(at(c.now), 4))
		assert.Equal(t, Verdict{Remaining: 6, Reset: p.end - at(c.now), Retry: p.end - at(c.now)}, k.take(at(c.now), 7))
		assert.Equal(t, Verdict{Remaining: 6, Reset: p.end - at(c.now), Retry: Never}, k.take(at(c.now), 11))
		assert.Equal(t, Verdict{Remaining: 0, Reset: 1}, k.take(p.end-1, 6))
		assert.Equal(t, Verdict{Reset: 1, Retry: 1}, k.take(p.end-1, 1))
		assert.Equal(t, Verdict{Remaining: 10}, k.take(p.end, 0))
		next := r.calendar.at(p.end)
		assert.Equal(t, p.end, next.start)
		assert.Equal(t, Verdict{Reset: next.end - next.start}, k.take(p.end, 10))
	}
}

func TestCalendarWhenTheClockStepsBack(t *testing.T) {
	r := made(NewCalendar(10, true, time.UTC))
	at := func(m time.Month, d int) int64 { return time.Date(2026, m, d, 0, 0, 0, 0, time.UTC).UnixNano() }
	used := keep(r)
	used.take(at(12, 1), 10)

	k := used.copy() // a little: December's units are December's
	v := k.take(at(12, 1)-second, 1)
	assert.Equal(t, 31*24*hour+second, v.Retry)
	assert.False(t, k.take(at(12, 31), 1).Allowed())
	assert.True(t, k.take(at(13, 1), 1).Allowed())

	k = used.copy() // from a time that was all wrong: this period's, that is
	v = k.take(at(3, 31), 1)
	assert.Equal(t, 24*hour, v.Retry)
	assert.False(t, k.take(at(4, 1)-1, 1).Allowed())
	assert.True(t, k.take(at(4, 1), 10).Allowed())
}
