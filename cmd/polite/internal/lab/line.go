package lab

import (
	"time"

	"github.com/politehttp/polite/internal/sim"
)

// line is a queue as many servers have it, to compare with. It is not ours.
type line struct {
	sim   *sim.Sim
	limit int // how many are let in at once

	bound      int                   // how many wait; 0: no bound
	newest     bool                  // the newest is served first
	dropOldest bool                  // of a full line; else who comes last is refused
	drop       func(wait int64) bool // asked when one's turn comes; nil: never

	inside  int
	waiting queue[*request]
	emptied int64 // when it was empty last
}

func (l *line) arrive(r *request) {
	if l.inside < l.limit && l.waiting.len() == 0 {
		l.emptied = l.sim.Now()
		l.inside++
		r.begin()
		return
	}
	if l.bound != 0 && l.waiting.len() >= max(0, l.bound) {
		if !l.dropOldest || l.bound < 0 {
			r.refuse()
			return
		}
		l.waiting.oldest().refuse()
	}
	l.waiting.push(r)
}

func (l *line) leave(*request) {
	l.inside--
	for l.inside < l.limit && l.waiting.len() > 0 {
		var r *request
		if l.newest {
			r = l.waiting.newest()
		} else {
			r = l.waiting.oldest()
		}
		if l.drop != nil && l.drop(l.sim.Now()-r.arrived) {
			r.refuse()
			continue
		}
		l.inside++
		r.begin()
	}
	if l.waiting.len() == 0 {
		l.emptied = l.sim.Now()
	}
}

// over drops who waited longer.
func over(bound time.Duration) func(wait int64) bool {
	return func(wait int64) bool { return wait > int64(bound) }
}

const (
	codelTarget   = int64(5 * time.Millisecond)
	codelInterval = int64(100 * time.Millisecond)
)

// codel drops as Facebook's servers do (Maurer, "Fail at scale", ACM Queue
// 2015): while the shortest wait of the last interval was over the target, who
// waited longer than twice that.
func codel(s *sim.Sim) func(wait int64) bool {
	var least, ends int64
	overloaded := false
	return func(wait int64) bool {
		if s.Now() >= ends {
			overloaded = least > codelTarget
			least, ends = wait, s.Now()+codelInterval
			return false
		}
		least = min(least, wait)
		return overloaded && wait > 2*codelTarget
	}
}
