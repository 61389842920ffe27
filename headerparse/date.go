package headerparse

import "time"

// parseDate reads an instant written as text: the three forms of an HTTP-date (RFC
// 9110 section 5.6.7), also with UTC or a numeric offset in place of GMT; ISO
// 8601, whose seconds, fraction and zone may be missing (no zone is UTC); and
// what Date.toString of JavaScript gives. Zones with other names mean
// different offsets to different people, so such a date tells nothing.
func (c *clock) parseDate(s string) (time.Time, bool) {
	r := reader{s: s}
	if s != "" && isDigit(s[0]) {
		return r.iso()
	}
	return c.textual(&r)
}

// textual reads the forms that begin with the day's name. That name is not
// compared with the date.
func (c *clock) textual(r *reader) (t time.Time, ok bool) {
	short, long := r.weekday()
	if !short && !long {
		return t, false
	}
	if short && r.skip(" ") {
		return r.american()
	}
	if !r.skip(", ") {
		return t, false
	}
	day, dayOK := r.digits(1, 2)
	dash := r.skip("-")
	if !dayOK || !dash && !r.skip(" ") {
		return t, false
	}
	month, monthOK := r.month()
	if !monthOK || dash && !r.skip("-") || !dash && !r.skip(" ") {
		return t, false
	}
	from := r.i
	year, yearOK := r.digits(2, 4)
	digits := r.i - from
	if !yearOK || digits == 3 || digits == 2 && !dash || !r.skip(" ") {
		return t, false
	}
	h, m, sec, timeOK := r.clock(true)
	if !timeOK || !r.skip(" ") {
		return t, false
	}
	offset, zoneOK := r.zone()
	if !zoneOK || !r.done() {
		return t, false
	}
	if digits == 2 {
		year = c.century(year, month, day)
	}
	return build(year, month, day, h, m, sec, 0, offset)
}

// century completes a year of two digits to the one within fifty years of
// now: RFC 9110 section 5.6.7.
func (c *clock) century(yy, month, day int) int {
	now := c.now().UTC()
	year := now.Year() - now.Year()%100 + yy
	switch t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC); {
	case t.After(now.AddDate(50, 0, 0)):
		return year - 100
	case t.Before(now.AddDate(-50, 0, 0)):
		return year + 100
	}
	return year
}

// A reader takes one date apart from left to right.
type reader struct {
	s string
	i int
}

// american reads on after "Sun ": asctime, "Mar  1 12:02:00 2026", or
// JavaScript, "Mar 01 2026 12:02:00 GMT+0000 (…)".
func (r *reader) american() (t time.Time, ok bool) {
	month, monthOK := r.month()
	if !monthOK || !r.skip(" ") {
		return t, false
	}
	r.skip(" ")
	day, dayOK := r.digits(1, 2)
	if !dayOK || !r.skip(" ") {
		return t, false
	}
	if r.at(2) == ':' {
		h, m, sec, timeOK := r.clock(true)
		if !timeOK || !r.skip(" ") {
			return t, false
		}
		year, yearOK := r.digits(4, 4)
		if !yearOK || !r.done() {
			return t, false
		}
		return build(year, month, day, h, m, sec, 0, 0)
	}
	year, yearOK := r.digits(4, 4)
	if !yearOK || !r.skip(" ") {
		return t, false
	}
	h, m, sec, timeOK := r.clock(true)
	if !timeOK || !r.skip(" GMT") {
		return t, false
	}
	offset, zoneOK := r.offset()
	if !zoneOK {
		return t, false
	}
	if r.skip(" (") { // the zone's name, for people
		if r.s[len(r.s)-1] != ')' {
			return t, false
		}
		r.i = len(r.s)
	}
	if !r.done() {
		return t, false
	}
	return build(year, month, day, h, m, sec, 0, offset)
}

// iso reads 2026-03-01T12:02:00.5+01:00 and its shorter forms.
func (r *reader) iso() (t time.Time, ok bool) {
	year, yearOK := r.digits(4, 4)
	if !yearOK || !r.skip("-") {
		return t, false
	}
	month, monthOK := r.digits(2, 2)
	if !monthOK || !r.skip("-") {
		return t, false
	}
	day, dayOK := r.digits(2, 2)
	if !dayOK || !r.skip("T") && !r.skip("t") && !r.skip(" ") {
		return t, false
	}
	h, m, sec, timeOK := r.clock(false)
	if !timeOK {
		return t, false
	}
	nano := r.fraction()
	offset := 0
	if !r.done() {
		blank := r.skip(" ")
		var zoneOK bool
		if offset, zoneOK = r.zone(); !zoneOK {
			return t, false
		}
		if blank {
			r.skip(" UTC") // as Go prints a time: +0000 UTC
		}
		if !r.done() {
			return t, false
		}
	}
	return build(year, month, day, h, m, sec, nano, offset)
}

// build refuses days that a month does not have. Second 60 is the next one: a
// leap second is legal in an HTTP-date.
func build(year, month, day, h, m, sec, nano, offset int) (time.Time, bool) {
	if year == 0 || month < 1 || month > 12 || day < 1 || h > 23 || m > 59 || sec > 60 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if t.Day() != day {
		return time.Time{}, false
	}
	return time.Date(year, time.Month(month), day, h, m, sec-offset, nano, time.UTC), true
}

// clock reads 12:02:00, and 12:02 unless the seconds are needed.
func (r *reader) clock(seconds bool) (h, m, sec int, ok bool) {
	if h, ok = r.digits(2, 2); !ok || !r.skip(":") {
		return 0, 0, 0, false
	}
	if m, ok = r.digits(2, 2); !ok {
		return 0, 0, 0, false
	}
	if !r.skip(":") {
		return h, m, 0, !seconds
	}
	sec, ok = r.digits(2, 2)
	return h, m, sec, ok
}

// fraction reads .5 as 500,000,000; none is 0. A dot without digits is left.
func (r *reader) fraction() (nano int) {
	if r.at(0) != '.' || !isDigit(r.at(1)) {
		return 0
	}
	scale := 100_000_000
	for r.i++; isDigit(r.at(0)); r.i++ {
		nano += int(r.at(0)-'0') * scale
		scale /= 10
	}
	return nano
}

// zone reads GMT, UTC, Z or an offset, in seconds east.
func (r *reader) zone() (offset int, ok bool) {
	if r.skipFold("GMT") || r.skipFold("UTC") || r.skipFold("Z") {
		return 0, true
	}
	return r.offset()
}

// offset reads +0100, +01:00 or +01.
func (r *reader) offset() (offset int, ok bool) {
	sign := 1
	if r.skip("-") {
		sign = -1
	} else if !r.skip("+") {
		return 0, false
	}
	h, ok := r.digits(2, 2)
	if !ok || h > 23 {
		return 0, false
	}
	m := 0
	if r.skip(":") || isDigit(r.at(0)) {
		if m, ok = r.digits(2, 2); !ok || m > 59 {
			return 0, false
		}
	}
	return sign * (h*3600 + m*60), true
}

var (
	weekdays = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
	months   = [...]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}
)

func (r *reader) weekday() (short, long bool) {
	for _, name := range weekdays {
		if r.skipFold(name) {
			return false, true
		}
		if r.skipFold(name[:3]) {
			return true, false
		}
	}
	return false, false
}

func (r *reader) month() (int, bool) {
	for i, name := range months {
		if r.skipFold(name) {
			return i + 1, true
		}
	}
	return 0, false
}

// digits reads a number of at least min and at most max digits.
func (r *reader) digits(least, most int) (v int, ok bool) {
	from := r.i
	for r.i-from < most && isDigit(r.at(0)) {
		v = v*10 + int(r.at(0)-'0')
		r.i++
	}
	return v, r.i-from >= least
}

func (r *reader) at(ahead int) byte {
	if r.i+ahead >= len(r.s) {
		return 0
	}
	return r.s[r.i+ahead]
}

func (r *reader) skip(word string) bool {
	if len(r.s)-r.i < len(word) || r.s[r.i:r.i+len(word)] != word {
		return false
	}
	r.i += len(word)
	return true
}

func (r *reader) skipFold(word string) bool {
	if !hasPrefixFold(r.s[r.i:], word) {
		return false
	}
	r.i += len(word)
	return true
}

func (r *reader) done() bool { return r.i == len(r.s) }
