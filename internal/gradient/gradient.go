// Package gradient finds out how many requests a server can work on at once. It
// is the pure engine of shed.Gate's adaptive limit.
//
// A server with W workers whose requests take S does at most W/S of them a
// second. Below W in flight more concurrency brings more throughput and costs
// nothing; beyond, it brings none and everybody waits:
//
//	throughput                        latency
//	     ┌───────────── W/S               │            ╱
//	    ╱                                 │          ╱
//	   ╱                                  │        ╱
//	  ╱                                 S │───────┘
//	 └───┴─────────────► limit            └───────┴──────► limit
//	     W                                        W
//
// Neither W nor S is known, and both change. What is seen is the latency of the
// requests that end. Samples are added up to windows of a fifth of a second to
// ten seconds, as many as it takes until the mean is known to a few percent, and
// each window moves the limit once:
//
//	what the window shows                           the limit
//	never more than half of it in flight            stays
//	more than 5 % dropped by who was called         × 0.9
//	nobody waited for the end                       × 0.7, if half of it was in flight
//	latency over 1.6 × that without a queue         × √(1.6 × that / latency), if it is full
//	latency below, the limit reached                × √(1.6 × that / latency), or up to 1.5 while
//	                                                latency is flat; at most half above the lowest
//	                                                limit that brought the same throughput
//	latency below, the limit not reached            stays: a higher one would bring nothing
//
// So it grows only while latency is flat: from 20 to 400 in five seconds when
// there is room. At the top it holds, with a short queue that keeps all workers
// busy; it neither creeps (concurrency-limits#134) nor falls when it reaches Max
// (concurrency-limits#155). Dropped requests do not count as quick ones
// (concurrency-limits#176). Who gives up counts for the time until then, without
// an end: latency is the time of all for each that ended, what it would be if all
// had waited. So a server whose clients all lose patience finds its limit, too.
//
// # What latency is without a queue
//
// The lowest latency ever proven is the base. It falls at once. It must not
// simply follow when latency rises, or a long overload would become normal
// (failsafe-go#127); but if it never did, a service that became slower for good
// would be refused its work for ever. So when the limit is full and latency is
// raised, which leaves that in doubt, the limit is probed: halved for a window.
//
//	latency falls as the limit does     it was a queue: the limit is cut to what keeps it short
//	latency falls wholly so             the workers need still less: it is halved again
//	latency stays                       it is not the limit's doing: the limit returns to where it
//	                                    was, and from then on goes by the latency found now
//
// What a probe found holds until a later window or probe shows less. The base
// itself rises by probes alone, at most to the double in an hour, and keeps alive
// the suspicion that leads to the next one. What comes of it; each line is a
// test:
//
//	20 workers take ten times as long, for half     they are kept busy by a limit of 30 on average;
//	an hour                                         the base rises by less than half; ten seconds
//	                                                after the end all is as before
//	requests that do not wait for each other        all are served again after 10 s; when they take
//	take three times as long from now on            ten times as long, after 30 s
//	half the workers go, or come back               the limit has followed after ten seconds
//	a process starts in the middle of three         its limit is right after 90 s
//	times the load that its one worker bears
//
// Probes are 2.5 to 90 s apart, the less they find the more, at random, so that
// processes do not probe together. They need a limit that is full on average and
// latency a fifth above the base: the server refuses work anyway. Where a fifth
// of the capacity is to spare nothing is probed.
//
// It works with or without a queue at the door, which it does not see: samples
// begin at the admission. Without one short bursts beyond the limit are refused.
package gradient

import "math"

// Where a limit starts and ends when its fields say nothing.
const (
	DefaultMin     = 1
	DefaultMax     = 1000
	DefaultInitial = 20
)

// Limit is an adaptive concurrency limit. The zero value is ready for use; its
// fields do not change after that. It is pure: it takes the time from its caller,
// starts nothing and locks nothing, so one caller at a time. It holds some 350
// bytes, however many samples it gets.
type Limit struct {
	Min     int    // never below, however slow requests are: trusted to be harmless; zero and below: 1
	Max     int    // never above; zero: 1,000; negative: what 31 bits hold; at least Min
	Initial int    // where it starts; zero: 20; brought between Min and Max
	Seed    uint64 // another one in each process, so that they do not probe at the same time

	ready    bool
	min, max float64
	limit    float64
	high     float64 // a recent limit at which latency was near enough

	// Latencies in nanoseconds; 0: not known yet.
	base  float64 // without a queue: the lowest that was proven
	plain float64 // without a queue, as the last probe found it: at least base
	last  float64 // in the last window

	window window
	yield  yield
	probe  probe
	random uint64
}

// Sample tells of a request that ended: when, in nanoseconds of a monotonic
// clock; how long it took since it was admitted, in nanoseconds; how many were
// in flight when it ended, itself included; and whether it was dropped: refused
// by whatever it needed. How long a dropped one took says nothing and is not
// used.
//
// Requests that last as long as their client likes, such as event streams, make
// no sample. A clock that is set, forwards or backwards, costs one window.
func (l *Limit) Sample(now, rtt int64, inFlight int, dropped bool) {
	kind := ok
	if dropped {
		kind = refused
	}
	l.sample(now, rtt, inFlight, kind)
}

// GaveUp tells of a request whose client did not wait for the end: all that is
// known of how long it takes is that it takes longer.
func (l *Limit) GaveUp(now, atLeast int64, inFlight int) {
	l.sample(now, atLeast, inFlight, abandoned)
}

func (l *Limit) sample(now, rtt int64, inFlight int, how kind) {
	l.prepare()
	w := &l.window
	if w.stale(now, l.last) {
		w.begin(now, 0)
		l.startOver(now)
	}
	w.add(now, min(float64(max(rtt, 1)), l.most()), max(inFlight, 1), how)
	if !w.complete() {
		return
	}
	v := w.view()
	l.evaluate(float64(now), v)
	if v.took > 0 {
		l.last = v.took
	}
	// What ends next was admitted under the limit before.
	w.begin(now, l.last)
}

// Limit is how many may be in flight: at least Min, at most Max.
func (l *Limit) Limit() int {
	l.prepare()
	return int(l.whole())
}

// whole is the limit that is told. What is in flight is compared with it.
func (l *Limit) whole() float64 { return math.Round(l.limit) }

func (l *Limit) prepare() {
	if l.ready {
		return
	}
	l.ready = true
	l.min = float64(min(max(l.Min, DefaultMin), math.MaxInt32))
	l.max = float64(min(l.Max, math.MaxInt32))
	switch {
	case l.Max == 0:
		l.max = DefaultMax
	case l.Max < 0:
		l.max = math.MaxInt32
	}
	l.max = max(l.max, l.min)
	l.limit = DefaultInitial
	if l.Initial != 0 {
		l.limit = float64(l.Initial)
	}
	l.limit = l.bounded(l.limit)
	l.high = l.limit
	l.random = l.Seed
}

func (l *Limit) bounded(limit float64) float64 { return min(max(limit, l.min), l.max) }

// most is what one request counts for at most, so that the rare very long one
// does not look like a server that became slow.
func (l *Limit) most() float64 {
	if most := longest * max(l.plain, l.last); most > 0 {
		return most
	}
	return math.MaxInt64
}
