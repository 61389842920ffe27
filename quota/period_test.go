package quota

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

func TestPeriodsOfTheCalendar(t *testing.T) {
	for _, c := range []struct {
		about, zone string
		p           Period
		now         string // local time with offset
		start, end  string // UTC
		hours       float64
	}{
		{"a day", "UTC", Day, "2026-11-30T12:00:00Z", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z", 24},
		{"its first instant", "UTC", Day, "2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z", 24},
		{"its last instant", "UTC", Day, "2026-11-30T23:59:59.999999999Z", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z", 24},
		{"leap day", "UTC", Day, "2028-02-29T08:00:00Z", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z", 24},
		{"a day east", "Asia/Kathmandu", Day, "2026-11-30T00:10:00+05:45", "2026-11-29T18:15:00Z", "2026-11-30T18:15:00Z", 24},
		{"23 hours", "Europe/Berlin", Day, "2026-03-29T12:00:00+02:00", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 23},
		{"25 hours", "Europe/Berlin", Day, "2026-10-25T12:00:00+01:00", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 25},
		{"23 hours, New York", "America/New_York", Day, "2026-03-08T12:00:00-04:00", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", 23},
		{"half an hour of summer", "Australia/Lord_Howe", Day, "2026-10-04T12:00:00+11:00", "2026-10-03T13:30:00Z", "2026-10-04T13:00:00Z", 23.5},
		{"no midnight, Sao Paulo", "America/Sao_Paulo", Day, "2018-11-04T01:00:00-02:00", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z", 23},
		{"the day before it", "America/Sao_Paulo", Day, "2018-11-03T23:59:59-03:00", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z", 24},
		{"23:00 twice, Sao Paulo", "America/Sao_Paulo", Day, "2018-02-17T23:30:00-03:00", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z", 25},
		{"no midnight, Beirut", "Asia/Beirut", Day, "2024-03-31T05:00:00+03:00", "2024-03-30T22:00:00Z", "2024-03-31T21:00:00Z", 23},
		{"no midnight, Cairo", "Africa/Cairo", Day, "2024-04-26T05:00:00+03:00", "2024-04-25T22:00:00Z", "2024-04-26T21:00:00Z", 23},
		{"midnight twice, Havana", "America/Havana", Day, "2026-11-01T00:30:00-05:00", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25},
		{"the first of them", "America/Havana", Day, "2026-11-01T00:30:00-04:00", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25},
		{"back into yesterday at 00:01", "America/St_Johns", Day, "2010-11-06T23:30:00-03:30", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z", 25},
		{"a skipped date", "Pacific/Apia", Day, "2011-12-31T00:00:00+14:00", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z", 24},
		{"the date before it", "Pacific/Apia", Day, "2011-12-29T23:59:59-10:00", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", 24},
		{"a month", "UTC", Month, "2026-11-30T12:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z", 30 * 24},
		{"a month from the 31st", "UTC", Month, "2026-01-31T12:00:00Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", 31 * 24},
		{"February", "UTC", Month, "2026-02-28T23:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z", 28 * 24},
		{"leap February", "UTC", Month, "2028-02-29T23:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", 29 * 24},
		{"no leap year", "UTC", Month, "2100-02-28T23:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z", 28 * 24},
		{"December", "UTC", Month, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", 31 * 24},
		{"a month with a short day", "Europe/Berlin", Month, "2026-03-31T23:59:59+02:00", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z", 31*24 - 1},
		{"a week, on Monday", "UTC", Week, "2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z", 7 * 24},
		{"a week, on Sunday", "Europe/Berlin", Week, "2026-10-25T23:59:59+01:00", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z", 7*24 + 1},
		{"an hour", "Asia/Kathmandu", Period(time.Hour), "2026-11-30T12:59:59Z", "2026-11-30T12:00:00Z", "2026-11-30T13:00:00Z", 1},
		{"7 hours", "UTC", Period(7 * time.Hour), "1970-01-01T07:00:00Z", "1970-01-01T07:00:00Z", "1970-01-01T14:00:00Z", 7},
		{"before 1970", "UTC", Period(time.Hour), "1969-12-31T23:30:00Z", "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z", 1},
		{"the longest", "UTC", Period(1<<63 - 1), "2026-11-30T00:00:00Z", "1970-01-01T00:00:00Z", "2262-04-11T23:47:16.854775807Z", time.Duration(1<<63 - 1).Hours()},
	} {
		t.Run(c.about, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339Nano, c.now)
			require.NoError(t, err)
			in := c.p.interval(now, zone(t, c.zone))
			assert.Equal(t, c.start, in.start.Format(time.RFC3339Nano), "start")
			assert.Equal(t, c.end, in.end.Format(time.RFC3339Nano), "end")
			assert.Equal(t, c.hours, in.end.Sub(in.start).Hours())
			assert.True(t, in.holds(now))
		})
	}
}

// In every zone the periods follow each other without gap or overlap, and start
// where the date first shows.
func TestPeriodsTileTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{
		"UTC", "Europe/Berlin", "Europe/Dublin", "America/Sao_Paulo", "America/Havana", "America/St_Johns",
		"Asia/Beirut", "Africa/Cairo", "Africa/Casablanca", "Pacific/Apia", "Pacific/Kwajalein", "Asia/Manila",
		"America/Juneau", "Australia/Lord_Howe", "Antarctica/Troll", "Asia/Tehran", "Asia/Gaza", "Atlantic/Azores",
	} {
		z := zone(t, name)
		for range 150 {
			now := time.Unix(random.Int64N(200*365*86400)-100*365*86400, random.Int64N(1e9)) // 1870 to 2070
			for _, p := range []Period{Day, Week, Month} {
				in := p.interval(now, z)
				require.True(t, in.holds(now), "%s %d %v", name, p, now)
				require.True(t, in.start.Before(in.end))
				next := p.interval(in.end, z)
				require.Equal(t, in.end, next.start, "%s %d after %v", name, p, now)
				before := p.interval(in.start.Add(-1), z)
				require.Equal(t, in.start, before.end, "%s %d before %v", name, p, now)
				for range 5 { // whichever instant of the period asks
					at := in.start.Add(time.Duration(random.Int64N(int64(in.end.Sub(in.start)))))
					require.Equal(t, in, p.interval(at, z), "%s %d at %v", name, p, at)
				}
				require.Less(t, number(p, in.start.Add(-1), z), number(p, in.start, z), "%s %d %v", name, p, in.start)
			}
		}
	}
}

// number counts dates, weeks or months.
func number(p Period, t time.Time, z *time.Location) int {
	y, m, d := t.In(z).Date()
	days := int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
	switch p {
	case Month:
		return 12*y + int(m)
	case Week:
		return (days + 7000003) / 7 // 1970-01-01 was a Thursday
	}
	return days
}
