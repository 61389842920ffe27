package headerparse

import (
	"strings"
	"time"
)

// A group is the fields of one limit, which differ in their role only, and
// what they say together.
type group struct {
	row                *dialect
	stem, scope, limit string      // as in field
	at                 [roles]int8 // by role, one more than the index of its field

	Limit
	source  string        // the field that tells Reset
	seconds float64       // Reset as the plain number that it was
	span    time.Duration // Window, if a field of its own tells it
	gone    bool          // part of another group now
}

// gather groups the fields of limits.
func gather(fields []field, groups []group) []group {
next:
	for i := range fields {
		f := &fields[i]
		if f.role == roleRetry || f.row.syntax == items || f.row.syntax == policies {
			continue
		}
		for j := range groups {
			if g := &groups[j]; g.row == f.row && equalFold(g.stem, f.stem) && equalFold(g.limit, f.limit) {
				g.take(f.role, i)
				continue next
			}
		}
		groups = append(groups, group{row: f.row, stem: f.stem, scope: f.scope, limit: f.limit})
		groups[len(groups)-1].take(f.role, i)
	}
	return groups
}

func (g *group) take(r role, i int) {
	if g.at[r] == 0 {
		g.at[r] = int8(i + 1)
	}
}

func (g *group) has(r role) bool { return g.at[r] != 0 }

// text is the value of the field in that role, or empty.
func (g *group) text(fields []field, r role) string {
	if !g.has(r) {
		return ""
	}
	return fields[g.at[r]-1].value()
}

// ietf reports whether the fields are those of the IETF drafts.
func (g *group) ietf() bool { return equalFold(g.stem, "ratelimit") }

// count reads the counters of the group. declared are the policies that the
// response declares beside them.
func (g *group) count(fields []field, c *clock, declared []sfMember) {
	g.Limit, g.seconds = unknown(g.title(), g.row.unit), Unknown
	if g.row.syntax != counters {
		return
	}
	if u := unitOf(g.limit); u != "" {
		g.Unit = u
	}
	quota := readCounts(g.text(fields, roleQuota))
	left := readCounts(g.text(fields, roleRemaining))
	g.Quota, g.Remaining = quota.first, left.first
	if used := readCounts(g.text(fields, roleUsed)); g.Remaining < 0 && quota.first >= 0 && used.first >= 0 {
		g.Remaining = max(0, quota.first-used.first)
	}
	if g.Remaining < 0 && equalFold(bare(g.text(fields, roleStatus)), "rejected") {
		g.Remaining = 0
	}
	g.name(fields)

	g.span = g.windowField(fields)
	var declaredFor time.Duration
	if g.ietf() && g.limit == "" {
		declaredFor = windowAmong(g.Quota, declared)
	}
	for _, w := range [...]time.Duration{
		g.span, quota.window, left.window, windowFor(g.Quota, g.text(fields, rolePolicy)), declaredFor, windowOf(g.limit), g.row.window,
	} {
		if w > 0 {
			g.Window = w
			break
		}
	}
	g.when(fields, c)
}

// title is the limit's name by its fields' names.
func (g *group) title() string {
	prefix := g.row.name
	if prefix == "" {
		prefix = g.scope
	}
	switch {
	case prefix == "":
		return lowered(g.limit)
	case g.limit == "":
		return lowered(prefix)
	}
	return lowered(prefix + "-" + g.limit)
}

// name takes the limit's name from a field, if the fields' names have none.
func (g *group) name(fields []field) {
	if g.limit != "" {
		return
	}
	for _, r := range [...]role{roleResource, roleLabel} {
		if label := bare(g.text(fields, r)); label != "" {
			g.Name = label
			return
		}
	}
}

// when reads when there is more. A delay that is one by its name is best, for
// it needs no clock.
func (g *group) when(fields []field, c *clock) {
	for _, r := range [...]role{roleResetAfter, roleReset, roleResetTime} {
		if !g.has(r) {
			continue
		}
		f := &fields[g.at[r]-1]
		d, seconds, ok := c.wait(f.value(), f.unit)
		if !ok {
			// A list of numbers; dates have commas too, but no number before.
			first, _, list := strings.Cut(f.value(), ",")
			if _, isNumber := parseNumber(bare(first)); list && isNumber {
				d, seconds, ok = c.wait(first, f.unit)
			}
		}
		if ok {
			g.Reset, g.seconds, g.source = d, seconds, f.name
			return
		}
	}
}

// windowField reads a field that says what the window is.
func (g *group) windowField(fields []field) time.Duration {
	if !g.has(roleWindow) {
		return 0
	}
	f := &fields[g.at[roleWindow]-1]
	s := bare(f.value())
	if n, ok := parseNumber(s); ok {
		d, _ := n.times(scale(f.unit))
		return d
	}
	if s == "" || len(s) > maxText {
		return 0
	}
	if d, ok := parseDuration(s); ok {
		return d
	}
	return spanOf(s)
}

// settle decides in which unit the reset was. Seconds, unless that is longer
// than the window and milliseconds are not: a limit resets within its window.
// Windows in a name or a policy are no measure, for the reset that stands
// beside them may be that of a wider limit.
func (g *group) settle() {
	if g.Reset < 0 || g.seconds < 0 || g.span <= 0 {
		return
	}
	longest := 1.05 * g.span.Seconds()
	if g.seconds > longest && g.seconds/1000 <= longest {
		g.Reset /= 1000
		g.seconds = Unknown
	}
}

// share gives a reset or a window that stands alone to each named limit of
// the same prefix that has none.
func share(groups []group) {
	for i := range groups {
		lone := &groups[i]
		if !lone.alone() {
			continue
		}
		lone.settle() // in one unit for all of them
		for j := range groups {
			g := &groups[j]
			if !g.beside(lone) {
				continue
			}
			lone.gone = true
			if g.Reset < 0 {
				g.Reset, g.seconds, g.source = lone.Reset, Unknown, lone.source
			}
			if g.Window < 0 && lone.Window > 0 {
				g.Window = lone.Window
			}
		}
	}
}

// alone reports whether the group has no name and no counter.
func (g *group) alone() bool {
	return g.limit == "" && g.row.syntax == counters && !g.has(roleQuota) && !g.has(roleRemaining) && !g.has(roleUsed)
}

// beside reports whether g is a named limit with the prefix of lone.
func (g *group) beside(lone *group) bool {
	return g.limit != "" && (g.Quota >= 0 || g.Remaining >= 0) && g.row == lone.row && equalFold(g.stem, lone.stem)
}

// merge drops the unnamed limit of X- fields if the drafts' fields tell of an
// unnamed one, and the counters of early drafts if those of a later one do:
// servers send both so that old clients understand one of them. It is the same
// limit, so what only the dropped fields know is kept.
func merge(groups []group, l *ledger) {
	limit, source := l.unnamed()
	for i := range groups {
		if g := &groups[i]; g.ietf() && g.limit == "" && g.known() {
			if limit == nil {
				limit, source = &g.Limit, &g.source
			} else {
				g.gone = true
				fill(limit, source, g)
			}
		}
	}
	if limit == nil {
		return
	}
	for i := range groups {
		if g := &groups[i]; g.limit == "" && isTriple(g.stem) {
			g.gone = true
			fill(limit, source, g)
		}
	}
}

func isTriple(stem string) bool {
	return equalFold(stem, "x-ratelimit") || equalFold(stem, "x-rate-limit") || equalFold(stem, "rate-limit")
}

func (g *group) known() bool {
	return g.Quota >= 0 || g.Remaining >= 0 || g.Reset >= 0
}

// fill takes from g what limit does not know.
func fill(limit *Limit, source *string, g *group) {
	g.settle()
	if limit.Name == "" {
		limit.Name = g.Name
	}
	if limit.Quota < 0 {
		limit.Quota = g.Quota
	}
	if limit.Remaining < 0 {
		limit.Remaining = g.Remaining
	}
	if limit.Reset < 0 {
		limit.Reset, *source = g.Reset, g.source
	}
	if limit.Window < 0 {
		limit.Window = g.Window
	}
}

// lowered is strings.ToLower for names, without a copy of the common ones.
func lowered(name string) string {
	for i := range spans {
		if equalFold(name, spans[i].text) {
			return spans[i].text
		}
	}
	for i := range units {
		if equalFold(name, units[i].word) {
			return units[i].word
		}
	}
	return strings.ToLower(name)
}
