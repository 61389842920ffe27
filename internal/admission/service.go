package admission

import "math/bits"

// service remembers how long requests took of late: a histogram of the last 512
// to 1,024 of them, and of no more than the last 10 to 20 s, in buckets an
// eighth of an octave wide, 2 KB in all. It answers for the tail (does the
// deadline leave enough?) and for the middle (how fast does the queue move?).
type service struct {
	recent, before histogram
	since          int64 // when recent began

	p90, mean int64 // as last computed
	fresh     int   // samples until they are computed again
}

const (
	serviceSamples = 512
	serviceSpan    = 10e9
	serviceEnough  = 16 // fewer samples say nothing
	serviceRefresh = 16
)

type histogram struct {
	n     uint32
	count [30 * 8]uint32
}

func (s *service) add(d, now int64) {
	if s.recent.n >= serviceSamples || now-s.since >= serviceSpan {
		s.turn(now)
	}
	s.recent.count[bucket(d)]++
	s.recent.n++
	s.fresh--
}

func (s *service) turn(now int64) {
	if now-s.since >= 2*serviceSpan {
		s.before = histogram{}
	} else {
		s.before = s.recent
	}
	s.recent, s.since, s.fresh = histogram{}, now, 0
}

// typical is the 90th percentile of what a request takes, and the mean without
// the slowest fiftieth: one stall must not make the queue look endless. Both are
// 0 while too few are known.
func (s *service) typical(now int64) (p90, mean int64) {
	if now-s.since >= serviceSpan {
		s.turn(now)
	}
	if s.fresh <= 0 {
		s.fresh = serviceRefresh
		s.p90, s.mean = s.compute()
	}
	return s.p90, s.mean
}

func (s *service) compute() (p90, mean int64) {
	n := int64(s.recent.n) + int64(s.before.n)
	if n < serviceEnough {
		return 0, 0
	}
	var seen, sum, used int64
	for i := range s.recent.count {
		c := int64(s.recent.count[i]) + int64(s.before.count[i])
		seen += c
		if p90 == 0 && 10*seen >= 9*n {
			p90 = middle(i)
		}
		if 50*seen <= 49*n || used == 0 {
			sum += c * middle(i)
			used += c
		}
	}
	return p90, sum / used
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
