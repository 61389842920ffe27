package redisstore

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/limiter"
)

//go:embed value.lua
var valueLua string

// A plan is a limit as Redis knows it. value.lua says what a value looks like.
type plan struct {
	limit *limiter.Limit
	rule  *rule.Rule    // in microseconds; of a calendar in nanoseconds
	unit  time.Duration // of the rule
	name  string        // of the limit, escaped for the names of keys
	spec  string        // what a value begins with; of a ToClockPerKey the key's shift is still to be put in
	nano  *rule.Rule    // of a ToClockPerKey: whose Shift Memory uses
	ends  ends          // of a calendar
	one   string        // the charge of one unit; of a calendar without the periods

	share atomic.Pointer[limiter.Limit] // under Local, if it was needed

	leaks, weight int64 // of a bucket: leaks a microsecond, and what a unit weighs
}

// planOf returns the plan of l, or says why there can be none.
func planOf(l *limiter.Limit) (*plan, error) {
	r, err := micros(l)
	if err != nil {
		return nil, err
	}
	p := &plan{limit: l, rule: r, unit: time.Microsecond, name: escaped(l.Name())}
	kind, x, y := "", r.Window(), int64(0)
	switch r.Kind() {
	case rule.TokenBucket, rule.LeakyMeter, rule.LeakyQueue:
		kind = "b"
		x, y, _ = reduced(l.Rate())
		p.leaks, p.weight = x, y
	case rule.FixedWindow:
		switch kind = "w"; l.Align() {
		case limiter.ToFirst:
			kind = "f"
		case limiter.ToClockPerKey:
			p.nano, err = rule.NewFixedWindow(l.Quota(), int64(l.Window()), rule.ToClockPerKey)
		}
	case rule.SlidingCounter:
		kind = "c"
	case rule.Calendar:
		period, zone := l.Calendar()
		kind, x, y = "d", int64(period), zoneNumber(zone)
		p.unit = time.Nanosecond
	case rule.SlidingLog:
		kind = "l"
	case rule.SlidingBuckets:
		kind, y = "s", r.Window()/int64(r.Cells())
	}
	p.spec = specOf(kind, x, y, r.Quota())
	p.one = p.packed(1)
	return p, err
}

// specLen is the length of what each value begins with.
const specLen = 2 + 3*8

func specOf(kind string, x, y, quota int64) string {
	return pack("1"+kind, x, y, quota)
}

// pack appends numbers as the scripts read them. They are exact up to 2^53.
func pack(to string, numbers ...int64) string {
	b := make([]byte, len(to), len(to)+8*len(numbers))
	copy(b, to)
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return string(b)
}

// unpack reads what pack has written. It is false for what pack never writes.
func unpack(text string, numbers []int64) bool {
	if len(text) < 8*len(numbers) {
		return false
	}
	for i := range numbers {
		f := math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[8*i : 8*i+8])))
		if !(f >= 0 && f <= maxExact && f == math.Trunc(f)) {
			return false
		}
		numbers[i] = int64(f)
	}
	return true
}

// charge is what the scripts are told of a cost, of all but a calendar.
func (p *plan) charge(cost int64) string {
	if cost == 1 {
		return p.one
	}
	return p.packed(cost)
}

func (p *plan) packed(cost int64) string {
	if p.weight == 0 {
		return pack("", cost)
	}
	quota := p.rule.Quota()
	span, over := p.instants(quota)
	ahead, part := int64(maxExact), int64(0) // further than any bucket reaches
	if cost <= quota {
		ahead, part = p.instants(max(cost, 1))
	}
	return pack("", cost, ahead, part, span, over)
}

// instants returns how long a bucket takes to leak units, in whole microseconds,
// and by how many leaks that is too long.
func (p *plan) instants(units int64) (whole, over int64) {
	weight := units * p.weight
	whole = (weight + p.leaks - 1) / p.leaks
	return whole, whole*p.leaks - weight
}

// specFor returns what a value of key begins with.
func (p *plan) specFor(key string) string {
	if p.nano == nil {
		return p.spec
	}
	return specOf("w", p.rule.Window(), p.shift(key), p.rule.Quota())
}

// shift is added to the time for this key: what Memory adds, to the microsecond.
func (p *plan) shift(key string) int64 {
	if p.nano == nil {
		return 0
	}
	return p.nano.Shift(key) / 1000
}

// zoneNumber tells time zones apart, in 32 bits: a zone that is loaded twice is
// the same, two fixed ones may share a name.
func zoneNumber(zone *time.Location) int64 {
	h := fnv.New32a()
	_, offset := time.Unix(0, 0).In(zone).Zone()
	h.Write([]byte(zone.String() + " " + strconv.Itoa(offset)))
	return int64(h.Sum32())
}

// level is what is known of one key of one limit at one instant: its state, as
// a script answers it.
type level struct {
	state rule.State // of a rule with a State, in shifted time for a ToClockPerKey
	total int64      // of a log: all units,
	last  int64      // the last entry's time,
	room  int64      // and when there will be room for what was asked; 0: there is
}

// parseLevel reads what an answer says of one key, and returns the rest of it.
func (p *plan) parseLevel(text, key string) (l level, rest string, err error) {
	if text != "" && text[0] == '-' {
		return l, text[1:], nil
	}
	long, counter := p.rule.Long(), p.rule.Kind() == rule.SlidingCounter
	var three [3]int64
	n := three[:2]
	if long || counter {
		n = three[:]
	}
	size := specLen + 8*len(n)
	if len(text) < size || text[0] != '1' || !unpack(text[specLen:size], n) {
		return l, "", errAnswer
	}
	rest = text[size:]
	switch {
	case long:
		return level{total: n[0], last: n[1], room: n[2]}, rest, nil
	case counter:
		n[1] = n[1]<<32 | n[2]
	case p.rule.Kind() == rule.Calendar:
		n[0] *= int64(time.Microsecond)
	}
	if n[0] > 0 {
		n[0] += p.shift(key)
	}
	return level{state: rule.State{A: n[0], B: n[1]}}, rest, nil
}

// errAnswer is an answer of a script that is none of ours.
var errAnswer = errors.New("redisstore: a script has answered something that it never does: is there a proxy in between that changes text?")

// verdict says what became of cost units at now, in microseconds, that were
// asked of a key at this level; room is only known of the cost that was asked.
func (p *plan) verdict(l level, key string, now, cost int64) rule.Verdict {
	if !p.rule.Long() {
		at := p.at(key, now)
		if p.weight > 0 {
			if beyond, state := p.beyond(l.state, at); beyond > 0 {
				return p.overfull(state, beyond, at, cost)
			}
		}
		_, v := p.rule.Take(l.state, at, cost)
		return v
	}
	quota, window := p.rule.Quota(), p.rule.Window()
	v := rule.Verdict{Remaining: max(quota-l.total, 0)}
	if l.total > 0 {
		v.Reset = max(l.last+window-now, 0)
	}
	switch ask := max(cost, 1); {
	case ask > quota:
		v.Retry = rule.Never
	case ask > v.Remaining:
		v.Retry = max(l.room-now, 1)
	case cost > 0:
		v.Remaining -= cost
		v.Reset = p.stamp(now) + window - now
	}
	return v
}

// beyond returns by how much a bucket holds more than its quota, as time, and its
// state without that: it was charged while the quota was larger. A script never
// answers one that is further ahead since the clock has stepped back.
func (p *plan) beyond(s rule.State, at int64) (int64, rule.State) {
	span, over := p.instants(p.rule.Quota())
	beyond := s.A - at - span
	if s.B < over {
		beyond++
	}
	return beyond, rule.State{A: s.A - beyond, B: s.B}
}

// overfull is the verdict on a bucket that is full in beyond at the soonest.
func (p *plan) overfull(full rule.State, beyond, at, cost int64) rule.Verdict {
	_, later := p.rule.Take(full, at, cost)
	_, v := p.rule.Take(full, at, 0)
	v.Remaining, v.Reset, v.Retry = 0, v.Reset+beyond, later.Retry
	if later.Retry != rule.Never {
		v.Retry += beyond
	}
	return v
}

// at returns an instant as the rule counts it.
func (p *plan) at(key string, now int64) int64 {
	return now*int64(time.Microsecond/p.unit) + p.shift(key)
}

// stamp returns when a unit of a log admitted now is taken to have come.
func (p *plan) stamp(now int64) int64 {
	if p.rule.Kind() == rule.SlidingLog {
		return now
	}
	cell := p.rule.Window() / int64(p.rule.Cells())
	return (now/cell + 1) * cell
}

// decision is the verdict as the limiter tells it.
func (p *plan) decision(v rule.Verdict) limiter.Decision {
	d := limiter.Decision{
		Allowed: v.Retry == 0, Never: v.Retry == rule.Never,
		By: p.limit, Quota: p.limit.Quota(), Remaining: v.Remaining,
		ResetAfter: p.duration(v.Reset), Delay: p.duration(v.Delay),
		RetryAfter: time.Duration(v.Retry),
	}
	if !d.Never {
		d.RetryAfter = p.duration(v.Retry)
	}
	return d
}

// duration turns the rule's unit into nanoseconds. The spans that are exact are
// shorter than what a Duration holds.
func (p *plan) duration(n int64) time.Duration { return time.Duration(n) * p.unit }
