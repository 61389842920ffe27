package admission

// pressure counts refusals by the second and keeps from them how long those who
// are refused should stay away. The rule is that of API Priority and Fairness in
// Kubernetes: as long as the seconds to wait brought three refusals each, it
// doubles, and not again before as many seconds have passed; fewer than one
// each, and it falls by a second every second.
type pressure struct {
	after   int64 // seconds
	second  int64 // the one that is being counted
	rose    int64 // the one of the last doubling
	refused [longestAfter]uint32
}

// longestAfter is the most that pressure says; jitter doubles it at most.
const longestAfter = 16

func (p *pressure) refuse(now int64) {
	p.turn(now)
	p.refused[p.second%longestAfter]++
}

// turn evaluates the seconds that are over. A clock that steps back changes
// nothing.
func (p *pressure) turn(now int64) {
	s := now / 1e9
	if s-p.second > 2*longestAfter { // all forgotten by now
		*p = pressure{second: s}
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

// seconds is what to say, spread from once to twice what pressure keeps, or
// those who were refused together come back together.
func (p *pressure) seconds(now int64, random float64) int64 {
	p.turn(now)
	after := max(p.after, 1)
	return after + min(max(int64(random*float64(after+1)), 0), after)
}
