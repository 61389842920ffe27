package admission

import "math/bits"

// service remembers how long requests took of late: a histogram of the last 512
// to 1,024 of them that ended within 20 s, in buckets an eighth of an octave
// wide, 2 KB in all. What is older says nothing, whether or not something new
// came: a provider that refuses everybody learns nothing, and after a stall it
// would refuse for ever.
type service struct {
	recent, before histogram
	since          int64 // when recent began
	known          estimate
	fresh          int // samples until known is computed again

	// peak is the longest of late, and halves with every second. No estimate is
	// above it: what was slow and is no more counts for some seconds at most, and
	// what is slow again counts at once.
	peak, peaked int64
}

// estimate is how long a request takes. All is 0 while too little is known.
type estimate struct {
	least int64 // the quickest
	tail  int64 // nine times of ten, and at most four medians: a few slow ones are of another kind
	mean  int64 // where nothing counts more than four medians: one stall must not make the queue look endless
}

const (
	serviceSamples = 512
	serviceSpan    = 10e9
	serviceEnough  = 16 // fewer samples say nothing
	serviceRefresh = 16
	serviceMedians = 4 // what counts at most, in medians: 1.2 times the p90 of an exponential distribution
	peakHalves     = 1e9
)

type histogram struct {
	n     uint32
	count [30 * 8]uint32
}

func (s *service) add(d, now int64) {
	s.turn(now)
	s.recent.count[bucket(d)]++
	s.recent.n++
	s.fresh--
	if d >= s.highest(now) {
		s.peak, s.peaked = d, now
	}
}

// addAtLeast adds one that was broken off after d. It took longer, nobody knows
// how much: if that is long, it counts as if it had ended.
func (s *service) addAtLeast(d, now int64) {
	if known := s.typical(now); known.tail != 0 && d >= known.tail {
		s.add(d, now)
	}
}

// highest is the peak as of now.
func (s *service) highest(now int64) int64 {
	return s.peak >> (uint64(max(now-s.peaked, 0)) / peakHalves)
}

// turn forgets what is too long ago.
func (s *service) turn(now int64) {
	if s.recent.n < serviceSamples && now-s.since < serviceSpan {
		return
	}
	s.before = s.recent
	if now-s.since >= 2*serviceSpan {
		s.before = histogram{}
	}
	s.recent = histogram{}
	s.since, s.fresh = now, 0
}

// typical is the estimate as of now.
func (s *service) typical(now int64) estimate {
	s.turn(now)
	if s.fresh <= 0 {
		s.fresh = serviceRefresh
		s.known = s.compute()
	}
	known, highest := s.known, s.highest(now)
	known.least, known.tail = min(known.least, highest), min(known.tail, highest)
	return known
}

func (s *service) compute() (e estimate) {
	n := int64(s.recent.n) + int64(s.before.n)
	if n < serviceEnough {
		return estimate{}
	}
	var seen, sum, most int64
	for i := range s.recent.count {
		c := int64(s.recent.count[i]) + int64(s.before.count[i])
		if c == 0 {
			continue
		}
		if seen == 0 {
			e.least = lower(i)
		}
		seen += c
		took := middle(i)
		if most == 0 && 2*seen >= n {
			most = serviceMedians * took
		}
		if most != 0 {
			took = min(took, most)
		}
		if e.tail == 0 && 10*seen >= 9*n {
			e.tail = took
		}
		sum += c * took
	}
	e.mean = sum / n
	return e
}

// bucket is where a duration counts: from about 1 µs to 18 min.
func bucket(d int64) int {
	d = min(max(d, 1<<10), 1<<40-1)
	octave := bits.Len64(uint64(d)) // 11 … 40
	return (octave-11)*8 + int(d>>(octave-4))&7
}

// lower is where a bucket begins, and middle its middle.
func lower(i int) int64 { return (int64(i&7) + 8) << (i/8 + 7) }

func middle(i int) int64 { return (int64(i&7)*2 + 17) << (i/8 + 6) }
