package headerparse

import (
	"strings"
	"time"
)

// counts is what the value of a counter says: a number, or a list of which
// the first member is in force and the others are policies.
type counts struct {
	first  float64
	window time.Duration // of the first, by its own w or that of its equal
}

// readCounts reads 100, "100", 100;w=60, 10, 10;w=1, 50;w=60 or 150/15m.
func readCounts(s string) counts {
	if v, ok := count(s); ok || s == "" {
		return counts{first: v}
	}
	var space [8]sfMember
	if members, ok := readList(trim(s), space[:0]); ok && len(members) > 0 {
		if members[0].value.kind == sfInteger {
			v := counts{first: float64(members[0].value.num)}
			v.window = windowAmong(v.first, members)
			if v.first < 0 {
				v.first = Unknown
			}
			return v
		}
	}
	i := strings.IndexAny(s, ",;/")
	if i < 0 {
		return counts{first: Unknown}
	}
	v, ok := count(s[:i])
	if s[i] == '/' {
		span := spanOf(trim(s[i+1:]))
		if !ok || span == 0 {
			return counts{first: Unknown}
		}
		return counts{first: v, window: span}
	}
	return counts{first: v}
}

// windowAmong finds the window of a quota among policies such as 100;w=60 or
// "default";q=100;w=60; zero if it is not there.
func windowAmong(quota float64, policies []sfMember) time.Duration {
	if quota < 0 {
		return 0
	}
	for _, m := range policies {
		if quotaOf(m) != quota {
			continue
		}
		w, ok := m.param("w")
		if !ok {
			w, ok = m.param("window") // draft-polli-00
		}
		if !ok || w.kind != sfInteger || w.num <= 0 {
			continue
		}
		if d, ok := (number{whole: uint64(w.num)}).times(time.Second); ok {
			return d
		}
	}
	return 0
}

// quotaOf is what a policy allows.
func quotaOf(m sfMember) float64 {
	v := m.value
	if v.kind != sfInteger {
		v, _ = m.param("q")
	}
	if v.kind != sfInteger || v.num < 0 {
		return Unknown
	}
	return float64(v.num)
}

// windowFor is windowAmong for a policy field that is not the drafts' own.
func windowFor(quota float64, s string) time.Duration {
	var space [8]sfMember
	members, ok := readList(trim(s), space[:0])
	if !ok {
		return 0
	}
	return windowAmong(quota, members)
}

// parallel adds a limit for each place of lists that belong together, such as
//
//	X-RateLimit-Limit: 600, 30000
//	X-RateLimit-Usage: 314, 27536
//
// It reports false if the fields are no such lists: the quotas must differ,
// or they are copies of one, and every field must have a number for each.
func (l *ledger) parallel(g *group, fields []field, c *clock) bool {
	var quotas, left, used, resets [8]float64
	n := numbers(g.text(fields, roleQuota), &quotas)
	if n < 2 {
		return false
	}
	for i := range n {
		for j := range i {
			if quotas[i] == quotas[j] {
				return false
			}
		}
	}
	hasLeft, hasUsed := g.has(roleRemaining), g.has(roleUsed)
	if !hasLeft && !hasUsed ||
		hasLeft && numbers(g.text(fields, roleRemaining), &left) != n ||
		!hasLeft && numbers(g.text(fields, roleUsed), &used) != n {
		return false
	}
	hasResets := g.has(roleReset)
	if hasResets && numbers(g.text(fields, roleReset), &resets) != n {
		return false
	}
	for i := range n {
		m := unknown(g.Name, g.Unit)
		m.Quota, m.Remaining = quotas[i], left[i]
		if !hasLeft {
			m.Remaining = max(0, quotas[i]-used[i])
		}
		if w := windowFor(m.Quota, g.text(fields, rolePolicy)); w > 0 {
			m.Window = w
		}
		source := ""
		if hasResets {
			f := &fields[g.at[roleReset]-1]
			if d, _, ok := c.wait(part(f.value(), i), f.unit); ok {
				m.Reset, source = d, f.name
			}
		}
		l.add(m, source, g.ietf())
	}
	return true
}

// numbers reads a list of plain numbers; 0 if it is anything else.
func numbers(s string, dst *[8]float64) (n int) {
	for part := range strings.SplitSeq(s, ",") {
		v, ok := count(part)
		if !ok || n == len(dst) {
			return 0
		}
		dst[n] = v
		n++
	}
	return n
}

// part is the i-th part of a list.
func part(s string, i int) string {
	for ; i > 0; i-- {
		_, s, _ = strings.Cut(s, ",")
	}
	s, _, _ = strings.Cut(s, ",")
	return s
}
