package admission

import "time"

// Pressure counts refusals by the second and keeps from them how long those who
// are refused should stay away. The rule is that of API Priority and Fairness in
// Kubernetes: as long as the seconds to wait brought three refusals each, it
// doubles, and not again before as many seconds have passed; fewer than one
// each, and it falls by a second every second. The zero value is none.
type Pressure struct {
	after   int64 // seconds
	second  int64 // the one that is being counted
	rose    int64 // the one of the last doubling
	refused [longestAfter]uint32
}

// longestAfter is the most that Pressure says; jitter doubles it at most.
const longestAfter = 16

// Refuse counts one.
func (p *Pressure) Refuse(now int64) {
	p.turn(now)
	p.refused[p.second%longestAfter]++
}

// RetryAfter is what to tell who is refused now, in whole seconds from 1 to 32,
// spread from once to twice what the pressure is: or those who were refused
// together come back together. Random is in [0, 1).
func (p *Pressure) RetryAfter(now int64, random float64) time.Duration {
	p.turn(now)
	after := max(p.after, 1)
	return time.Duration(after+min(max(int64(random*float64(after+1)), 0), after)) * time.Second
}

// turn evaluates the seconds that are over. A clock that steps back changes
// nothing.
func (p *Pressure) turn(now int64) {
	s := now / 1e9
	if s-p.second > 2*longestAfter { // all forgotten by now
		*p = Pressure{second: s}
	}
	for p.second < s {
		n, after := int64(0), max(p.after, 1)
		for i := range after {
			n += int64(p.refused[(p.second+longestAfter-i)%longestAfter])
		}
		p.second++
		p.refused[p.second%longestAfter] = 0
		switch {
		case n >= 3*after && p.second-p.rose >= after:
			p.after, p.rose = min(2*after, longestAfter), p.second
		case n < after:
			p.after = max(after-1, 1)
		}
	}
}
