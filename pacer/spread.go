package pacer

import (
	"time"

	"github.com/politehttp/polite/headerparse"
)

// sameReset is how far two tellings of one reset may be apart: they come in
// whole seconds, after different times on the way.
const sameReset = int64(1500 * time.Millisecond)

// lostAfter is when a call that left and has no answer counts as lost, at
// most twice this.
const lostAfter = int64(30 * time.Second)

// spread deals out what the provider says is left, until its reset. Calls in
// flight may be counted in that or not, and are taken as not. It is a pure
// rule.
type spread struct {
	on    bool
	name  string
	first int64 // the reset as first told
	reset int64 // as told last
	free  int64 // the reset, jittered: what did not fit leaves then...
	width int64 // ...within such a time
	left  int64 // as told; only falls until the reset
	next  int64 // the next may leave
}

// tell takes in what an answer says of a limit, and reports whether anything
// changed. Below is the share of the quota under which to spread.
func (s *spread) tell(now int64, l headerparse.Limit, below float64, jitter func() float64) bool {
	if s.on && now >= s.reset {
		s.on = false
	}
	reset := later(now, min(int64(l.Reset), foreverInNano))
	scarce := l.Remaining < below*l.Quota
	if s.on && s.name == l.Name {
		tolerance := sameReset
		if l.Window > 0 {
			tolerance = min(tolerance, int64(l.Window)/2)
		}
		if reset <= s.first+tolerance { // the same one
			s.left = min(s.left, int64(l.Remaining))
			if reset > s.reset {
				s.free += reset - s.reset
				s.reset = reset
			}
			return true
		}
	} else if !scarce || s.on && s.gap(now) >= float64(l.Reset)/max(1, l.Remaining) {
		return false // nothing, or a tighter one is in force
	}
	if *s = (spread{}); scarce {
		width := min((reset-now)/holdJitter, int64(mostJitter))
		*s = spread{
			on: true, name: l.Name, left: int64(l.Remaining), next: now,
			first: reset, reset: reset, free: reset + int64(jitter()*float64(width)), width: width,
		}
	}
	return true
}

// gap is the time for one unit now.
func (s *spread) gap(now int64) float64 { return float64(s.reset-now) / float64(max(1, s.left)) }

// soonest returns when n units may leave after ahead others, with so many out
// and not yet answered. What does not fit waits for the reset, or for a look
// at which calls are still out.
func (s *spread) soonest(now, ahead, n, out int64) int64 {
	if !s.on || now >= s.free {
		return now
	}
	left := s.left - out - ahead
	switch {
	case left >= n && now < s.reset:
		return min(s.reset, later(max(now, s.next), int64(s.gapOf(now, out)*float64(ahead))))
	case left >= n:
		return now
	case s.left-ahead >= n:
		return min(s.free, later(now, lostAfter))
	}
	return s.free
}

// take lets n units leave now, with out of them, n included, now unanswered.
func (s *spread) take(now, n, out int64) {
	if s.on && now < s.reset {
		s.next = later(now, int64(s.gapOf(now, out-n)*float64(n)))
	}
}

func (s *spread) gapOf(now, out int64) float64 {
	return float64(s.reset-now) / float64(max(1, s.left-out))
}

// flight tells how many calls have left and not been answered. A call whose
// answer never came, for its connection broke or its caller went away, counts
// as lost after a while.
type flight struct {
	lost   int64
	marked int64 // calls sent by markAt
	markAt int64
}

// out is how many of the calls sent are still out.
func (f *flight) out(now, sent, answered int64) int64 {
	if now-f.markAt >= lostAfter {
		f.lost += max(0, f.marked-answered-f.lost)
		f.marked, f.markAt = sent, now
	}
	return max(0, sent-answered-f.lost)
}
