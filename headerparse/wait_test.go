package headerparse

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInstantNotDecades is the mistake that parks a client for 56 years: a
// reset as seconds since 1970, read as seconds from now.
func TestInstantNotDecades(t *testing.T) {
	now := time.Date(2026, 10, 7, 11, 15, 0, 0, time.UTC)
	for _, name := range []string{"X-RateLimit-Reset", "RateLimit-Reset", "X-Rate-Limit-Reset"} {
		remaining := name[:len(name)-len("Reset")] + "Remaining"
		for _, lines := range [][]string{
			{"Date: Wed, 07 Oct 2026 11:15:00 GMT", remaining + ": 0", name + ": 1791374400"},
			{remaining + ": 0", name + ": 1791374400"}, // by the client's clock
		} {
			s := Parse(429, head(lines...), now)
			require.True(t, s.Told, name)
			assert.Equal(t, 45*time.Minute, s.Wait)
			assert.Equal(t, 45*time.Minute, s.Limits[0].Reset)
			assert.Equal(t, 0, s.By)
		}
	}
	s := Parse(429, head("Retry-After: 1791374400"), now)
	assert.Equal(t, "45m0s Retry-After", summary(s))
}

func TestWait(t *testing.T) {
	const none = time.Duration(-1)
	server := clock{at: received, dated: true} // the response has a Date
	for _, c := range []struct {
		in       string
		unit     unit
		want     time.Duration // by the server's clock
		byClient time.Duration // by ours
	}{
		{"0", byValue, 0, 0},
		{"00", byValue, 0, 0},
		{"007", byValue, 7 * time.Second, 7 * time.Second},
		{" \t12 ", byValue, 12 * time.Second, 12 * time.Second},
		{`"12"`, byValue, 12 * time.Second, 12 * time.Second},
		{`""12""`, byValue, none, none},
		{`"`, byValue, none, none},
		{`""`, byValue, none, none},
		{"0.000000001", byValue, 1, 1},
		{"0.0000000001", byValue, 0, 0},
		{"1.5", byValue, 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"1.", byValue, none, none},
		{".5", byValue, none, none},
		{"1.5.5", byValue, none, none},
		{"-1", byValue, none, none},
		{"+1", byValue, none, none},
		{"1e3", byValue, none, none},
		{"0x10", byValue, none, none},
		{"1_0", byValue, none, none},
		{"1,5", byValue, none, none},
		{"NaN", byValue, none, none},
		{"Inf", byValue, none, none},
		{"infinity", byValue, none, none},
		{"12junk", byValue, none, none},
		{"null", byValue, none, none},
		{"", byValue, none, none},

		// The horizon, the gap above it, and the bands of instants.
		{"31622400", byValue, horizon, horizon},
		{"31622400.5", byValue, none, none},
		{"31622401", byValue, none, none},
		{"999999999", byValue, none, none},
		{"1772366400", byValue, 0, 0},
		{"1772366401.25", byValue, 1250 * time.Millisecond, 1250 * time.Millisecond},
		{"1772366401250", byValue, 1250 * time.Millisecond, 1250 * time.Millisecond},
		{"1772366401250.5", byValue, 1250500 * time.Microsecond, 1250500 * time.Microsecond},
		{"1772366401250000", byValue, 1250 * time.Millisecond, 1250 * time.Millisecond},
		{"1772366401250000001", byValue, 1250*time.Millisecond + 1, 1250*time.Millisecond + 1},
		{"1803988800", byValue, horizon, horizon},
		{"1803988801", byValue, none, none},
		{"1772366100", byValue, 0, 0},
		{"1772366099", byValue, 0, none},
		{"1740744000", byValue, 0, none},
		{"1740743999", byValue, none, none},
		{"17723664000", byValue, none, none},
		{"9223372036854775807", byValue, none, none},
		{"9223372036854775808", byValue, none, none},
		{"18446744073709551615", byValue, none, none},
		{"18446744073709551616", byValue, none, none},
		{"99999999999999999999999999999999999999999999999999999999999999999999", byValue, none, none},

		// Names that fix the unit.
		{"1500", inMillis, 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"0.5", inMillis, 500 * time.Microsecond, 500 * time.Microsecond},
		{"31622400000", inMillis, horizon, horizon},
		{"31622400001", inMillis, none, none},
		{"1772366401250", inMillis, 1250 * time.Millisecond, 1250 * time.Millisecond},
		{"19", inMinutes, 19 * time.Minute, 19 * time.Minute},
		{"1772366401", inMinutes, none, none},
		{"3.2", onlyDelay, 3200 * time.Millisecond, 3200 * time.Millisecond},
		{"1772366401", onlyDelay, none, none},
		{"333.333333ms", onlyDelay, 333333333, 333333333},
		{"Sun, 01 Mar 2026 12:02:00 GMT", onlyDelay, none, none},

		// Durations.
		{"6m0s", byValue, 6 * time.Minute, 6 * time.Minute},
		{"1h2m3.5s", byValue, time.Hour + 2*time.Minute + 3500*time.Millisecond, time.Hour + 2*time.Minute + 3500*time.Millisecond},
		{"12ms", byValue, 12 * time.Millisecond, 12 * time.Millisecond},
		{"5µs", byValue, 5 * time.Microsecond, 5 * time.Microsecond},
		{"5μs", byValue, 5 * time.Microsecond, 5 * time.Microsecond},
		{"8784h", byValue, horizon, horizon},
		{"8785h", byValue, none, none},
		{"99999999999999h", byValue, none, none},
		{"-5s", byValue, none, none},
		{"+5s", byValue, none, none},
		{"5.s", byValue, none, none},
		{".5s", byValue, none, none},
		{"1.5.5s", byValue, none, none},
		{"5 s", byValue, none, none},
		{"1d", byValue, none, none},
		{"120 seconds", byValue, none, none},

		// Dates.
		{"Sun, 01 Mar 2026 12:02:00 GMT", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sun, 01 Mar 2026 12:02:00 UTC", byValue, 2 * time.Minute, 2 * time.Minute},
		{"sun, 01 mar 2026 12:02:00 gmt", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sun, 01 Mar 2026 12:02:00 Z", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sun, 01 Mar 2026 13:02:00 +0100", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sun, 01 Mar 2026 06:32:00 -05:30", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sun, 01 Mar 2026 07:02:00 EST", byValue, none, none},
		{"Sun, 01 Mar 2026 12:02:00", byValue, none, none},
		{"Sun, 01 Mar 2026 12:02:00 ", byValue, none, none},
		{"Sun, 01 Mar 2026 12:02:60 GMT", byValue, 3 * time.Minute, 3 * time.Minute},
		{"Sun, 01 Mar 2026 12:02:61 GMT", byValue, none, none},
		{"Sun, 01 Mar 2026 12:60:00 GMT", byValue, none, none},
		{"Sun, 01 Mar 2026 24:00:00 GMT", byValue, none, none},
		{"Sun, 00 Mar 2026 12:02:00 GMT", byValue, none, none},
		{"Sun, 29 Feb 2026 12:02:00 GMT", byValue, none, none},
		{"Sun, 01 Mrz 2026 12:02:00 GMT", byValue, none, none},
		{"Son, 01 Mar 2026 12:02:00 GMT", byValue, none, none},
		{"Sun 01 Mar 2026 12:02:00 GMT", byValue, none, none},
		{"Sun,01 Mar 2026 12:02:00 GMT", byValue, none, none},
		{"Sun, 01 Mar 26 12:02:00 GMT", byValue, none, none},
		{"Sun, 01 Mar 026 12:02:00 GMT", byValue, none, none},
		{"Sun, 01 Mar 20260 12:02:00 GMT", byValue, none, none},
		{"Sun, 01 Mar 2026 12:02:00 GMT, x", byValue, none, none},
		{"Sunday, 01-Mar-26 12:02:00 GMT", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sun, 01-Mar-2026 12:02:00 GMT", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sunday, 01-Mar-77 12:02:00 GMT", byValue, 0, none},
		{"Sunday, 01-Mar-26 12:02:00 EST", byValue, none, none},
		{"Sun Mar  1 12:02:00 2026", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sun Mar 01 12:02:00 2026", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sun Mar  1 12:02:00 2026 GMT", byValue, none, none},
		{"Sun Mar 01 2026 12:02:00 GMT+0000 (Coordinated Universal Time)", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sun Mar 01 2026 13:02:00 GMT+0100", byValue, 2 * time.Minute, 2 * time.Minute},
		{"Sun Mar 01 2026 13:02:00 GMT+0100 (x", byValue, none, none},
		{"Sun Mar 01 2026 13:02:00 GMT", byValue, none, none},
		{"Sun, 01 Mar 2026 11:54:59 GMT", byValue, 0, none},
		{"Sun, 01 Mar 2026 11:55:00 GMT", byValue, 0, 0},
		{"Tue, 02 Mar 2027 12:00:00 GMT", byValue, horizon, horizon},
		{"Tue, 02 Mar 2027 12:00:01 GMT", byValue, none, none},
		{"Fri, 31 Dec 9999 23:59:59 GMT", byValue, none, none},
		{"Thu, 01 Jan 1970 00:00:00 GMT", byValue, 0, none},
		{"Sat, 01 Jan 0000 00:00:00 GMT", byValue, none, none},

		// ISO 8601.
		{"2026-03-01T12:02Z", byValue, 2 * time.Minute, 2 * time.Minute},
		{"2026-03-01T12:02:00Z", byValue, 2 * time.Minute, 2 * time.Minute},
		{"2026-03-01t12:02:00z", byValue, 2 * time.Minute, 2 * time.Minute},
		{"2026-03-01 12:02:00", byValue, 2 * time.Minute, 2 * time.Minute},
		{"2026-03-01 12:02:00 UTC", byValue, 2 * time.Minute, 2 * time.Minute},
		{"2026-03-01 12:02:00 +0000 UTC", byValue, 2 * time.Minute, 2 * time.Minute},
		{"2026-03-01T12:02:00.25", byValue, 2*time.Minute + 250*time.Millisecond, 2*time.Minute + 250*time.Millisecond},
		{"2026-03-01T12:02:00.1234567891Z", byValue, 2*time.Minute + 123456789, 2*time.Minute + 123456789},
		{"2026-03-01T13:02:00+01:00", byValue, 2 * time.Minute, 2 * time.Minute},
		{"2026-03-01T13:02:00+0100", byValue, 2 * time.Minute, 2 * time.Minute},
		{"2026-03-01T13:02+01", byValue, 2 * time.Minute, 2 * time.Minute},
		{"2026-03-01T07:02:00 EST", byValue, none, none},
		{"2026-03-01T12:02:00.Z", byValue, none, none},
		{"2026-03-01T12:02:00+24:00", byValue, none, none},
		{"2026-02-30T12:02:00Z", byValue, none, none},
		{"2026-13-01T12:02:00Z", byValue, none, none},
		{"2026-03-01", byValue, none, none},
		{"2026-03-01T12", byValue, none, none},
		{"2026-3-1T12:02:00Z", byValue, none, none},
		{"20260301T120200Z", byValue, none, none},
		{"1st of next month", byValue, none, none},
	} {
		t.Run(c.in, func(t *testing.T) {
			ours := clock{at: received}
			for by, want := range map[*clock]time.Duration{&server: c.want, &ours: c.byClient} {
				got, _, ok := by.wait(c.in, c.unit)
				assert.Equal(t, want != none, ok, "told, Date %v", by.dated)
				assert.Equal(t, max(want, 0), got, "Date %v", by.dated)
			}
		})
	}
}

// TestCentury completes years of two digits around the turn of one.
func TestCentury(t *testing.T) {
	for _, c := range []struct{ now, yy, want int }{
		{2026, 26, 2026},
		{2026, 75, 2075},
		{2026, 77, 1977},
		{2026, 94, 1994},
		{2099, 1, 2101},
		{2099, 98, 2098},
		{1994, 94, 1994},
		{1994, 5, 2005},
	} {
		k := clock{at: time.Date(c.now, 6, 1, 0, 0, 0, 0, time.UTC)}
		assert.Equal(t, c.want, k.century(c.yy, 6, 1), "%02d in %d", c.yy, c.now)
	}
}

// TestZeroNow reads the clock itself where an instant has no Date beside it.
func TestZeroNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is 2000-01-01 00:00:00 UTC
		time.Sleep(10 * time.Second)
		for _, c := range []struct {
			lines []string
			want  string
		}{
			{[]string{"Retry-After: 5"}, "5s Retry-After"},
			{[]string{"Retry-After: Sat, 01 Jan 2000 00:00:30 GMT"}, "20s Retry-After"},
			{[]string{"Date: Sat, 01 Jan 2000 00:00:00 GMT", "Retry-After: Sat, 01 Jan 2000 00:00:30 GMT"}, "30s Retry-After"},
			{[]string{dated, "Retry-After: Sun, 01 Mar 2026 12:00:30 GMT"}, "30s Retry-After"},
			{[]string{"Date: Sunday, 01-Mar-26 12:00:00 GMT", "Retry-After: Sun, 01 Mar 2026 12:00:30 GMT"}, "30s Retry-After"},
			{[]string{"Retry-After: Sun, 01 Mar 2026 12:00:30 GMT"}, "nothing"},
		} {
			assert.Equal(t, c.want, summary(Parse(429, head(c.lines...), time.Time{})), "%q", c.lines)
		}
	})
}
