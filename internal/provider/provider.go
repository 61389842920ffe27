// Package provider has models of providers that refuse without saying any
// numbers, for the tests of what learns a pace from refusals alone.
package provider

import (
	"sort"
	"time"
)

// Provider decides on one attempt, at an instant in nanoseconds. It is not safe
// for concurrent use.
type Provider interface{ Admit(now int64) bool }

// Quota is a limit per second that may change once.
type Quota struct {
	First, Then float64
	Change      time.Duration // zero: it does not
}

// At is the limit at an instant.
func (q Quota) At(now int64) float64 {
	if q.Change > 0 && now >= int64(q.Change) {
		return q.Then
	}
	return q.First
}

// LeakyExcess is nginx's limit_req with nodelay: what is over the rate, in
// thousandths, falls with time and must not pass the burst.
type LeakyExcess struct {
	Quota
	Burst int64

	excess int64
	last   int64 // milliseconds
	begun  bool
}

func (p *LeakyExcess) Admit(now int64) bool {
	ms := now / 1e6
	e := max(0, p.excess-int64(p.At(now))*(ms-p.last)+1000)
	if !p.begun {
		p.begun, e = true, 0
	}
	if e > p.Burst*1000 {
		return false
	}
	p.excess, p.last = e, ms
	return true
}

// Tokens is a full bucket that holds what the quota gives in so many seconds.
type Tokens struct {
	Quota
	Holds float64

	spent float64
	last  int64
}

func (p *Tokens) Admit(now int64) bool {
	rate := p.At(now)
	p.spent = max(0, p.spent-rate*float64(now-p.last)/1e9)
	p.last = now
	if p.spent+1 > p.Holds*rate {
		return false
	}
	p.spent++
	return true
}

// ClockWindow counts per second of the clock.
type ClockWindow struct {
	Quota

	second int64
	count  float64
}

func (p *ClockWindow) Admit(now int64) bool {
	if s := now / 1e9; s != p.second {
		p.second, p.count = s, 0
	}
	if p.count+1 > p.At(now) {
		return false
	}
	p.count++
	return true
}

// Decision is what a provider said to one attempt.
type Decision struct {
	At int64
	OK bool
}

// Between counts what was decided in [from, to) of a log, which is in the order
// of time.
func Between(log []Decision, from, to time.Duration) (ok, refused float64) {
	at := func(t time.Duration) int {
		return sort.Search(len(log), func(i int) bool { return log[i].At >= int64(t) })
	}
	for _, d := range log[at(from):at(to)] {
		if d.OK {
			ok++
		} else {
			refused++
		}
	}
	return ok, refused
}
