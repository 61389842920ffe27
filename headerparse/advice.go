package headerparse

import (
	"strings"
	"time"
)

// adviceOf is what the fields say that tell a wait without a limit: the one
// whose row comes first. One in milliseconds makes Retry-After more exact, and
// is ignored if it contradicts it: the standard field is the one that
// gateways, and people, read.
func adviceOf(fields []field, c *clock) (d time.Duration, source string, ok bool) {
	plain, exact := -1, -1
	var plainWait, exactWait time.Duration
	for i := range fields {
		f := &fields[i]
		if f.role != roleRetry {
			continue
		}
		w, told := c.longestLine(f)
		switch {
		case !told:
		case f.unit == inMillis:
			if exact < 0 || before(f, w, &fields[exact], exactWait) {
				exact, exactWait = i, w
			}
		case plain < 0 || before(f, w, &fields[plain], plainWait):
			plain, plainWait = i, w
		}
	}
	switch {
	case plain < 0 && exact < 0:
		return 0, "", false
	case exact < 0, plain >= 0 && fields[plain].rank == 0 && (exactWait-plainWait).Abs() > agree:
		return plainWait, fields[plain].name, true
	}
	return exactWait, fields[exact].name, true
}

// before reports whether the field f, which tells the wait d, is heard before
// the field g. Of two with no order the longer wait counts.
func before(f *field, d time.Duration, g *field, e time.Duration) bool {
	if f.rank != g.rank {
		return f.rank < g.rank
	}
	return d > e
}

// longestLine is the longest wait that the lines of a field tell. A gateway
// that adds its own line, or appends its own number, does not shorten what the
// server said.
func (c *clock) longestLine(f *field) (longest time.Duration, ok bool) {
	for _, line := range f.lines {
		if len(line) > maxValue {
			continue
		}
		d, _, told := c.wait(line, f.unit)
		if !told {
			d, told = c.longestPart(line, f.unit)
		}
		if told {
			longest, ok = max(longest, d), true
		}
	}
	return longest, ok
}

// longestPart is the longest wait of numbers that were joined to one line.
// Dates are not taken apart: they hold commas themselves.
func (c *clock) longestPart(line string, u unit) (longest time.Duration, ok bool) {
	if !strings.Contains(line, ", ") {
		return 0, false
	}
	for part := range strings.SplitSeq(line, ", ") {
		if _, isNumber := parseNumber(bare(part)); !isNumber {
			return 0, false
		}
		if d, _, told := c.wait(part, u); told {
			longest, ok = max(longest, d), true
		}
	}
	return longest, ok
}
