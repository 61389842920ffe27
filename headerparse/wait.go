package headerparse

import (
	"time"
)

const (
	// horizon is the longest wait that is believed. Plans are billed by the
	// month and some by the year; what is longer is an error of the server,
	// and one bad field must not park a client that others share.
	horizon = 366 * 24 * time.Hour

	// slack is how long ago an instant may be, by our own clock, for the
	// client to conclude that it has come rather than that a clock is wrong.
	slack = 300 * time.Second

	// agree is how near a wait in milliseconds must be to Retry-After to be
	// the same wait told more exactly.
	agree = time.Second
)

// A unit is what a plain number in a field counts.
type unit uint8

const (
	byValue   unit = iota // seconds if it is small, an instant if it is large
	inMillis              // milliseconds; an instant if it is large
	inMinutes             // minutes
	onlyDelay             // seconds, never an instant
)

// A clock says how far away an instant is. An instant in a response was made
// by the server's clock, so it is compared with the server's clock, the Date
// field, if there is one: the difference is then right however wrong ours is.
type clock struct {
	at    time.Time     // when the response was received; zero: not told
	date  string        // the Date field, until it is needed
	age   time.Duration // since Date
	dated bool          // at is the server's time
}

// now is the server's time at receipt if that is told, else ours, which is
// read only if the caller did not.
func (c *clock) now() time.Time {
	if date := c.date; date != "" {
		c.date = ""
		if t, ok := c.textual(&reader{s: trim(date)}); ok {
			c.at, c.dated = t.Add(c.age), true
		}
	}
	if c.at.IsZero() {
		c.at = time.Now()
	}
	return c.at
}

// until is the time from receipt to t, and false if t tells nothing: it is
// too far away to believe, or past by our own clock alone.
func (c *clock) until(t time.Time) (time.Duration, bool) {
	d := t.Sub(c.now())
	switch {
	case d > horizon:
		return 0, false
	case d >= 0:
		return d, true
	default:
		return 0, c.dated || d >= -slack
	}
}

// near reports whether t is within a year of now, to either side. A number is
// an instant only then, while a date is one by its form.
func (c *clock) near(t time.Time) bool {
	return t.Sub(c.now()).Abs() <= horizon
}

// wait reads a value that says how long to wait or until when. seconds is the
// plain number of seconds that it was, or Unknown if it was anything else.
func (c *clock) wait(s string, u unit) (d time.Duration, seconds float64, ok bool) {
	s = bare(s)
	if s == "" || len(s) > 128 {
		return 0, Unknown, false
	}
	if n, isNumber := parseNumber(s); isNumber {
		if d, ok = n.times(scale(u)); ok {
			if u == byValue {
				seconds = n.float()
			} else {
				seconds = Unknown
			}
			return d, seconds, true
		}
		if t, isInstant := n.instant(); isInstant && (u == byValue || u == inMillis) && c.near(t) {
			d, ok = c.until(t)
		}
		return d, Unknown, ok
	}
	if d, ok = parseDuration(s); ok {
		return d, Unknown, true
	}
	if u == onlyDelay {
		return 0, Unknown, false
	}
	if t, isDate := c.parseDate(s); isDate {
		d, ok = c.until(t)
	}
	return d, Unknown, ok
}

func scale(u unit) time.Duration {
	switch u {
	case inMillis:
		return time.Millisecond
	case inMinutes:
		return time.Minute
	}
	return time.Second
}

// parseDuration reads a duration as Go writes it, such as 6m0s or 12ms,
// without a sign. ParseDuration takes signs and a leading dot.
func parseDuration(s string) (time.Duration, bool) {
	if !isDigit(s[0]) || isDigit(s[len(s)-1]) || len(s) > 64 {
		return 0, false
	}
	for i := range len(s) {
		if c := s[i]; !isDigit(c) && !isAlpha(c) && c != '.' && c < 0x80 {
			return 0, false
		}
	}
	for i := 1; i < len(s); i++ {
		if s[i] == '.' && (!isDigit(s[i-1]) || i+1 == len(s) || !isDigit(s[i+1])) {
			return 0, false
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > horizon {
		return 0, false
	}
	return d, true
}
