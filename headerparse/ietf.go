package headerparse

import (
	"strings"
	"time"
)

// structured adds the limits of the RateLimit field, and returns the members
// of RateLimit-Policy for the counters of older drafts.
//
// Drafts -08 to -11 write lists of named items:
//
//	RateLimit-Policy: "burst";q=100;w=60
//	RateLimit: "burst";r=12;t=43
//
// and -07 one dictionary: "RateLimit: limit=100, remaining=12, reset=43". A
// field that is neither is ignored, and no other with it.
func (l *ledger) structured(fields []field, c *clock) (declared []sfMember) {
	var state, policy string
	var stateField string
	for i := range fields {
		switch f := &fields[i]; f.row.syntax {
		case items:
			if state = f.joined(state); stateField == "" || f.row.stem == "ratelimit" {
				stateField = f.name
			}
		case policies:
			policy = f.joined(policy)
		}
	}
	if policy != "" {
		var ok bool
		if declared, ok = readList(trim(policy), make([]sfMember, 0, memberCap(policy))); !ok {
			declared = nil
		}
	}
	if state == "" {
		if !hasCounters(fields) {
			l.declared(declared)
		}
		return declared
	}
	var space [maxLimits]sfMember
	members, ok := readList(trim(state), space[:0])
	if !ok {
		if members, ok = readDict(trim(state), space[:0]); ok {
			l.dictionary(members, declared, stateField, c)
		}
		return declared
	}
	l.expect += len(members)
	for _, m := range members {
		l.item(m, declared, stateField, c)
	}
	if len(l.limits) == 0 && !hasCounters(fields) {
		l.declared(declared)
	}
	return declared
}

// memberCap is room for the members of a list, within bounds.
func memberCap(list string) int {
	return min(strings.Count(list, ",")+1, maxLimits)
}

// hasCounters reports whether a response has the fields of the drafts before
// -07, to which a policy then belongs.
func hasCounters(fields []field) bool {
	for i := range fields {
		f := &fields[i]
		if f.row.syntax == counters && f.limit == "" && equalFold(f.stem, "ratelimit") && f.role <= roleResetTime {
			return true
		}
	}
	return false
}

// item adds one member of RateLimit: r is what is left and t the seconds until
// there is more. A member without a name, or with a value of the wrong type,
// is skipped. a and w are what r and t are called in a proposal for the next
// draft (ietf-wg-httpapi/ratelimit-headers pull request 166).
func (l *ledger) item(m sfMember, declared []sfMember, source string, c *clock) {
	if !m.named() {
		return
	}
	left, ok1 := m.amount("r", "a")
	t, ok2 := m.amount("t", "w")
	if !ok1 || !ok2 {
		return
	}
	limit := unknown(m.value.text, "")
	if left >= 0 {
		limit.Remaining = float64(left)
	}
	if t >= 0 {
		if d, ok := c.seconds(t); ok {
			limit.Reset = d
		}
	}
	for _, p := range declared {
		if p.named() && p.value.text == m.value.text && l.policy(&limit, p) {
			break
		}
	}
	l.add(limit, source, true)
}

// declared adds limits that are only declared: without a state they tell no
// wait, but a client may pace itself by them.
func (l *ledger) declared(policies []sfMember) {
	for _, p := range policies {
		if limit := unknown(p.value.text, ""); p.named() && l.policy(&limit, p) {
			l.add(limit, "", true)
		}
	}
}

// policy fills in what a policy says of a limit: quota q, window w, and what q
// counts, qu. It reports false, and changes nothing, if one of them is of the
// wrong type.
func (l *ledger) policy(limit *Limit, p sfMember) bool {
	q, ok1 := p.amount("q", "q")
	w, ok2 := p.amount("w", "w")
	if !ok1 || !ok2 {
		return false
	}
	if q >= 0 {
		limit.Quota = float64(q)
	}
	if d, ok := (number{whole: uint64(max(w, 0))}).times(time.Second); ok && d > 0 {
		limit.Window = d
	}
	if qu, ok := p.param("qu"); ok && (qu.kind == sfString || qu.kind == sfToken) {
		limit.Unit = qu.text
	}
	return true
}

// dictionary adds the limit of a -07 RateLimit field.
func (l *ledger) dictionary(members, declared []sfMember, source string, c *clock) {
	limit := unknown("", "")
	for _, m := range members {
		if m.value.kind != sfInteger || m.value.num < 0 {
			continue
		}
		switch m.key {
		case "limit":
			limit.Quota = float64(m.value.num)
		case "remaining":
			limit.Remaining = float64(m.value.num)
		case "reset":
			if d, ok := c.seconds(m.value.num); ok {
				limit.Reset = d
			}
		}
	}
	if w := windowAmong(limit.Quota, declared); w > 0 {
		limit.Window = w
	}
	l.add(limit, source, true)
}

// unnamed is the limit without a name of the structured fields, or nil.
func (l *ledger) unnamed() (limit *Limit, source *string) {
	for i := range l.limits {
		if l.limits[i].Name == "" {
			return &l.limits[i], &l.sources[i].field
		}
	}
	return nil, nil
}

// named reports whether a member is a name. The drafts say String, and show
// a Token.
func (m sfMember) named() bool {
	return m.value.kind == sfString || m.value.kind == sfToken
}

// amount is the parameter of either key, or Unknown if there is none. It
// reports false if the parameter is no integer or negative.
func (m sfMember) amount(key, other string) (int64, bool) {
	v, ok := m.param(key)
	if !ok {
		if v, ok = m.param(other); !ok {
			return Unknown, true
		}
	}
	return v.num, v.kind == sfInteger && v.num >= 0
}

// seconds reads a number of seconds, or the instant that some servers send in
// place of it.
func (c *clock) seconds(n int64) (time.Duration, bool) {
	v := number{whole: uint64(n)}
	if d, ok := v.times(time.Second); ok {
		return d, true
	}
	if t, ok := v.instant(); ok && c.near(t) {
		return c.until(t)
	}
	return 0, false
}

// joined appends the lines of the field to those before, as RFC 9110 section
// 5.3 combines them. If together they are too long, none of the field's count.
func (f *field) joined(before string) string {
	if before == "" && len(f.lines) == 1 {
		return f.value()
	}
	size := len(before)
	for _, line := range f.lines {
		if size += len(line) + 2; size > maxValue {
			return before
		}
	}
	all := strings.Join(f.lines, ", ")
	if before == "" {
		return all
	}
	return before + ", " + all
}
