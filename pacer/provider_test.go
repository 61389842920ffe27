package pacer

import (
	"sort"
	"time"
)

// Providers that refuse without numbers. internal/cubic has them too, to test
// the rule by itself.

// A provider decides on one attempt.
type provider interface{ admit(now int64) bool }

// leakyExcess is nginx's limit_req with nodelay: what is over the rate, in
// thousandths, falls with time and must not pass the burst.
type leakyExcess struct {
	quota
	burst  int64
	excess int64
	last   int64 // milliseconds
	begun  bool
}

func (p *leakyExcess) admit(now int64) bool {
	ms := now / 1e6
	e := max(0, p.excess-int64(p.at(now))*(ms-p.last)+1000)
	if !p.begun {
		p.begun, e = true, 0
	}
	if e > p.burst*1000 {
		return false
	}
	p.excess, p.last = e, ms
	return true
}

// quota is a limit per second that may change once.
type quota struct {
	first, then float64
	change      time.Duration
}

func (q quota) at(now int64) float64 {
	if q.change > 0 && now >= int64(q.change) {
		return q.then
	}
	return q.first
}

// tokens is a full bucket that holds what the quota gives in so many seconds.
type tokens struct {
	quota
	holds float64
	spent float64
	last  int64
}

func (p *tokens) admit(now int64) bool {
	rate := p.at(now)
	p.spent = max(0, p.spent-rate*float64(now-p.last)/1e9)
	p.last = now
	if p.spent+1 > p.holds*rate {
		return false
	}
	p.spent++
	return true
}

// clockWindow counts per second of the clock.
type clockWindow struct {
	quota
	second int64
	count  float64
}

func (p *clockWindow) admit(now int64) bool {
	if s := now / 1e9; s != p.second {
		p.second, p.count = s, 0
	}
	if p.count+1 > p.at(now) {
		return false
	}
	p.count++
	return true
}

// decision is what a provider said to one attempt.
type decision struct {
	at int64
	ok bool
}

// between counts what was decided in [from, to).
func between(log []decision, from, to time.Duration) (ok, refused float64) {
	at := func(t time.Duration) int {
		return sort.Search(len(log), func(i int) bool { return log[i].at >= int64(t) })
	}
	for _, d := range log[at(from):at(to)] {
		if d.ok {
			ok++
		} else {
			refused++
		}
	}
	return ok, refused
}
