package admission

import (
	"math"
	"math/bits"
)

// service remembers how long requests took of late: a histogram of the last 512
// to 1,024 of them, or of at least the last 128 where they are fewer in 10 s, in
// buckets an eighth of an octave wide, 2 KB in all. It answers for the tail
// (does the deadline leave enough?) and for the middle (how fast does the queue
// move?).
type service struct {
	recent, before histogram
	since          int64 // when recent began

	p90, mean int64 // as last computed
	fresh     int   // samples until they are computed again

	// trust is what remains of the tail after refusals because of it. A
	// provider that refuses everybody learns nothing: after a stall it would
	// refuse for ever. So each refusal lowers it by a 64th, until one is let in;
	// a request that takes longer restores it.
	trust int64
}

const (
	serviceSamples = 512
	serviceFew     = 128
	serviceSpan    = 10e9
	serviceEnough  = 16 // fewer samples say nothing
	serviceRefresh = 16
)

type histogram struct {
	n     uint32
	count [30 * 8]uint32
}

func (s *service) add(d, now int64) {
	if s.recent.n >= serviceSamples || s.recent.n >= serviceFew && now-s.since >= serviceSpan {
		s.before = s.recent
		s.recent = histogram{}
		s.since, s.fresh, s.trust = now, 0, math.MaxInt64
	}
	s.recent.count[bucket(d)]++
	s.recent.n++
	s.fresh--
	if d > s.trust {
		s.trust = math.MaxInt64
	}
}

// doubt is told that a request was refused because of the tail.
func (s *service) doubt() { s.trust = min(s.trust, s.p90) / 64 * 63 }

// typical is the 90th percentile of what a request takes, and the mean, for
// which nothing counts more than four medians: one stall must not make the
// queue look endless. Both are 0 while too few are known.
func (s *service) typical() (p90, mean int64) {
	if s.fresh <= 0 {
		s.fresh = serviceRefresh
		s.p90, s.mean = s.compute()
	}
	return min(s.p90, s.trust), s.mean
}

func (s *service) compute() (p90, mean int64) {
	n := int64(s.recent.n) + int64(s.before.n)
	if n < serviceEnough {
		return 0, 0
	}
	var seen, sum, median int64
	for i := range s.recent.count {
		c := int64(s.recent.count[i]) + int64(s.before.count[i])
		if c == 0 {
			continue
		}
		seen += c
		if median == 0 && 2*seen >= n {
			median = middle(i)
		}
		if p90 == 0 && 10*seen >= 9*n {
			p90 = middle(i)
		}
		took := middle(i)
		if median != 0 {
			took = min(took, 4*median)
		}
		sum += c * took
	}
	return p90, sum / n
}

// bucket is where a duration counts: from about 1 µs to 18 min.
func bucket(d int64) int {
	d = min(max(d, 1<<10), 1<<40-1)
	octave := bits.Len64(uint64(d)) // 11 … 40
	return (octave-11)*8 + int(d>>(octave-4))&7
}

// middle is the middle of a bucket.
func middle(i int) int64 {
	return (int64(i&7)*2 + 17) << (i/8 + 6)
}
