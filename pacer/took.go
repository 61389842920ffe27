package pacer

import "time"

// took is how long the calls of a key take of late, from their leave to their
// answer: mean and mean deviation, smoothed as TCP does with round trips (RFC
// 6298 section 2). It is a pure rule.
type took struct{ mean, deviation float64 } // nanoseconds

func (k *took) add(d int64) {
	v := float64(max(d, 1))
	if k.mean == 0 {
		k.mean = v
		return
	}
	k.deviation += (max(v-k.mean, k.mean-v) - k.deviation) / 4
	k.mean += (v - k.mean) / 8
}

// most is what nearly all take at most; zero: not known.
func (k *took) most() time.Duration { return time.Duration(k.mean + 2*k.deviation) }

// Took tells how long a call of key took, from its leave to its answer. Whoever
// knows may tell now and then: a call with a deadline is refused if it would
// leave too late to be answered before that, as calls take of late. Else, when
// more is asked than may leave, the queue is as long as deadlines are, each call
// leaves in its last moment, and none is answered in time. A call may wait for
// half of its time in any case.
func (p *Pacer) Took(key string, d time.Duration) {
	r := p.lock()
	defer r.mu.Unlock()
	if l := p.known(key); l != nil {
		l.took.add(int64(d))
	}
}

// Takes returns how long nearly all calls of key take, by what Took was told of
// late; zero: not known.
func (p *Pacer) Takes(key string) time.Duration {
	r := p.lock()
	defer r.mu.Unlock()
	if l := p.known(key); l != nil {
		return l.took.most()
	}
	return 0
}

// leaveBy is the latest instant at which w may leave to be answered before its
// deadline.
func (w *waiter) leaveBy(deadline time.Time) time.Time {
	most := time.Duration(0)
	for i := range w.places {
		most = max(most, w.places[i].line.took.most())
	}
	return deadline.Add(-min(most, max(0, deadline.Sub(w.since)/2)))
}
