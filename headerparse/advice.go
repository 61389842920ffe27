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
	var plain, exact struct {
		field *field
		wait  time.Duration
	}
	for i := range fields {
		f := &fields[i]
		if f.role != roleRetry {
			continue
		}
		w, told := c.longestLine(f)
		if !told {
			continue
		}
		best := &plain
		if f.unit == inMillis {
			best = &exact
		}
		if best.field == nil || f.rank < best.field.rank || f.rank == best.field.rank && w > best.wait {
			best.field, best.wait = f, w
		}
	}
	switch {
	case plain.field == nil && exact.field == nil:
		return 0, "", false
	case exact.field == nil,
		plain.field != nil && plain.field.rank == 0 && (exact.wait-plain.wait).Abs() > agree:
		return plain.wait, plain.field.name, true
	}
	return exact.wait, exact.field.name, true
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
