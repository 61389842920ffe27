package headerparse

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// foreign adds the limits of a group whose values are no plain counters.
func (l *ledger) foreign(g *group, fields []field, c *clock) {
	if !g.has(roleQuota) {
		return
	}
	f := &fields[g.at[roleQuota]-1]
	s := trim(f.joined(""))
	switch g.row.syntax {
	case usedOfQuota:
		l.usedOfQuota(g, s)
	case usageList:
		l.usageList(g, s)
	case rate:
		if v, ok := count(s); ok {
			g.Quota, g.Window = v, g.row.window
			l.add(g.Limit, "", false)
		}
	case perWindow:
		l.perWindow(g, s, g.text(fields, roleUsed))
	case totals:
		l.totals(g, s, f.name, c)
	case resources:
		l.resources(s)
	case categories:
		l.categories(s, f.name, c)
	case weight:
		if _, ok := count(s); ok { // of how much is not told
			g.Name = g.row.name
			if w := spanOf(g.limit); w > 0 {
				g.Window = w
			}
			l.add(g.Limit, "", false)
		}
	case percents:
		l.percents(g, s, f.name)
	case accounts:
		l.accounts(g, s, f.name)
	}
}

// usedOfQuota reads 32/40.
func (l *ledger) usedOfQuota(g *group, s string) {
	before, after, ok := strings.Cut(s, "/")
	used, ok1 := count(before)
	quota, ok2 := count(after)
	if ok && ok1 && ok2 {
		g.Quota, g.Remaining = quota, max(0, quota-used)
		l.add(g.Limit, "", false)
	}
}

// usageList reads api-usage=17/5000, per-app-api-usage=…: the first is the
// account's, and the others are parts of it.
func (l *ledger) usageList(g *group, s string) {
	s, _, _ = strings.Cut(s, ",")
	name, value, ok := strings.Cut(s, "=")
	if value, _, _ = strings.Cut(value, "("); ok {
		g.Name, g.Window = trim(name), g.row.window
		l.usedOfQuota(g, value)
	}
}

// perWindow reads 20:1,100:120, units and seconds, and in the same way what
// is used of each.
func (l *ledger) perWindow(g *group, quotas, used string) {
	for pair := range strings.SplitSeq(quotas, ",") {
		quota, window, ok := readPair(pair)
		if !ok {
			continue
		}
		m := g.Limit
		m.Quota, m.Window = quota, window
		for other := range strings.SplitSeq(used, ",") {
			if v, w, ok := readPair(other); ok && w == window {
				m.Remaining = max(0, quota-v)
				break
			}
		}
		l.add(m, "", false)
	}
}

func readPair(s string) (v float64, window time.Duration, ok bool) {
	before, after, _ := strings.Cut(s, ":")
	v, ok1 := count(before)
	n, ok2 := parseNumber(trim(after))
	window, ok3 := n.times(time.Second)
	return v, window, ok1 && ok2 && ok3 && window > 0
}

// totals reads total=100; remaining=0; resets=17.
func (l *ledger) totals(g *group, s, source string, c *clock) {
	for part := range strings.SplitSeq(s, ";") {
		key, value, _ := strings.Cut(part, "=")
		switch key = trim(key); {
		case equalFold(key, "total"), equalFold(key, "limit"):
			g.Quota, _ = count(value)
		case equalFold(key, "remaining"):
			g.Remaining, _ = count(value)
		case equalFold(key, "resets"), equalFold(key, "reset"):
			if d, _, ok := c.wait(value, byValue); ok {
				g.Reset = d
			}
		}
	}
	l.add(g.Limit, source, false)
}

// resources reads Microsoft.Compute/LowCostGet3Min;3997,…: a policy and what
// is left of it.
func (l *ledger) resources(s string) {
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(part, ";")
		m := unknown(trim(name), "")
		m.Remaining, _ = count(value)
		l.add(m, "", false)
	}
}

// categories reads 60:error;default:organization:reason, …: for how many
// seconds data of these categories, or of all, is refused.
func (l *ledger) categories(s, source string, c *clock) {
	for part := range strings.SplitSeq(s, ",") {
		seconds, rest, _ := strings.Cut(part, ":")
		name, _, _ := strings.Cut(rest, ":")
		if d, _, ok := c.wait(seconds, onlyDelay); ok {
			m := unknown(trim(name), "")
			m.Remaining, m.Reset = 0, d
			l.add(m, source, false)
		}
	}
}

// percents reads {"call_count":28,"total_time":25}: each a share, in percent,
// of a budget that is not told.
func (l *ledger) percents(g *group, s, source string) {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &members) != nil {
		return
	}
	reset, seconds := readNumber(members["reset_time_duration"])
	delete(members, "reset_time_duration")
	for _, key := range slices.Sorted(maps.Keys(members)) {
		n, ok := readNumber(members[key])
		if !ok {
			continue
		}
		m := g.Limit
		m.Name = g.row.name + " " + key
		m.Quota, m.Remaining = 100, max(0, 100-n.float())
		if d, ok := reset.times(time.Second); seconds && ok {
			m.Reset = d
		}
		l.add(m, source, false)
	}
}

// accounts reads, for each business, the shares of percents by type of call,
// and the minutes until there is more.
func (l *ledger) accounts(g *group, s, source string) {
	var businesses map[string][]struct {
		Type string          `json:"type"`
		Call json.RawMessage `json:"call_count"`
		CPU  json.RawMessage `json:"total_cputime"`
		Time json.RawMessage `json:"total_time"`
		Wait json.RawMessage `json:"estimated_time_to_regain_access"`
	}
	if json.Unmarshal([]byte(s), &businesses) != nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(businesses)) {
		for _, b := range businesses[id] {
			m := g.Limit
			m.Name = b.Type
			for _, share := range [...]json.RawMessage{b.Call, b.CPU, b.Time} {
				if n, ok := readNumber(share); ok {
					left := max(0, 100-n.float())
					m.Quota, m.Remaining = 100, min(left, m.remainingOr(left))
				}
			}
			if n, ok := readNumber(b.Wait); ok {
				if d, ok := n.times(time.Minute); ok {
					m.Reset = d
				}
			}
			l.add(m, source, false)
		}
	}
}

func (m *Limit) remainingOr(v float64) float64 {
	if m.Remaining < 0 {
		return v
	}
	return m.Remaining
}

// readNumber reads a number, also one that JSON has as a string.
func readNumber(raw json.RawMessage) (number, bool) {
	return parseNumber(bare(string(raw)))
}
