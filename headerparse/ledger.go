package headerparse

import (
	"strings"
	"time"
)

// A ledger collects the limits of one response.
type ledger struct {
	limits  []Limit
	sources [maxLimits]source // beside limits
	expect  int               // about how many there will be
	problem string            // the name of the limit that refused, if told
}

// A source is where a limit in the ledger comes from.
type source struct {
	field string // the one that tells Reset
	ietf  bool   // a field of the IETF drafts, which counts before the others
}

// add records a limit that says anything at all and is not there yet.
func (l *ledger) add(m Limit, field string, ietf bool) {
	if m.Quota < 0 && m.Remaining < 0 && m.Reset < 0 && m.Window < 0 || len(l.limits) == maxLimits {
		return
	}
	if len(m.Name) > maxText {
		m.Name = m.Name[:maxText]
	}
	if len(m.Unit) > maxText {
		m.Unit = m.Unit[:maxText]
	}
	for i := range l.limits {
		if l.limits[i] == m {
			return
		}
	}
	if l.limits == nil {
		l.limits = make([]Limit, 0, min(max(l.expect, 1), maxLimits))
	}
	l.sources[len(l.limits)] = source{field, ietf}
	l.limits = append(l.limits, m)
}

// unknown is a limit of which nothing is known yet.
func unknown(name, unit string) Limit {
	return Limit{Name: name, Unit: unit, Quota: Unknown, Remaining: Unknown, Reset: Unknown, Window: Unknown}
}

// longest is the limit that says how long to wait: of the spent ones that with
// the latest reset, for until then the next call would be refused again. If a
// 429 has no counter at all, its resets are the message. A counter with
// something left means that another limit refused, of which nothing is told.
func (l *ledger) longest(status int, ietf bool) (by int, ok bool) {
	silent := status == 429 && !l.counts(ietf)
	by = -1
	for i, m := range l.limits {
		if l.sources[i].ietf != ietf || m.Reset < 0 || m.Remaining != 0 && !silent {
			continue
		}
		if by < 0 || m.Reset > l.limits[by].Reset {
			by = i
		}
	}
	return by, by >= 0
}

// counts reports whether any limit of a family says what is left.
func (l *ledger) counts(ietf bool) bool {
	for i, m := range l.limits {
		if l.sources[i].ietf == ietf && m.Remaining >= 0 {
			return true
		}
	}
	return false
}

// nearest is the limit that a wait told without a limit is about: the one that
// the response names as the problem, else the spent one whose reset is nearest
// to the wait. If a 429 has no counter at all, every limit with a reset may be
// the one.
func (l *ledger) nearest(status int, wait time.Duration) int {
	silent := status == 429 && !l.counts(true) && !l.counts(false)
	by := -1
	for i, m := range l.limits {
		if l.problem != "" && strings.EqualFold(m.Name, l.problem) {
			return i
		}
		if m.Remaining != 0 && (!silent || m.Reset < 0) {
			continue
		}
		if by < 0 || m.Reset >= 0 && (l.limits[by].Reset < 0 || (m.Reset-wait).Abs() < (l.limits[by].Reset-wait).Abs()) {
			by = i
		}
	}
	return by
}

// read fills the ledger from all fields: first the structured ones, then the
// counters of the drafts before them, then the vendors'.
func (l *ledger) read(fields []field, c *clock) {
	var space [8]group
	groups := gather(fields, space[:0])
	l.expect = len(groups)
	declared := l.structured(fields, c)
	for i := range groups {
		groups[i].count(fields, c, declared)
	}
	share(groups)
	merge(groups, l)
	for _, ietf := range [...]bool{true, false} {
		for i := range groups {
			if g := &groups[i]; g.ietf() == ietf && !g.gone {
				l.post(g, fields, c)
			}
		}
	}
}

// post adds what a group of fields says.
func (l *ledger) post(g *group, fields []field, c *clock) {
	if g.row.syntax != counters {
		l.foreign(g, fields, c)
		return
	}
	if l.problem == "" {
		l.problem = bare(g.text(fields, roleProblem))
	}
	if !l.parallel(g, fields, c) {
		g.settle()
		l.add(g.Limit, g.source, g.ietf())
	}
}
