package lab

import "github.com/politehttp/polite/internal/sim"

// Ways to share a server between tenants that are not ours, to compare with.

// random refuses by lot: the share of what comes that is too much.
type random struct {
	sim   *sim.Sim
	admit float64
	next  door
}

func (d *random) arrive(r *request) {
	if d.sim.Rand.Float64() >= d.admit {
		r.refuse()
		return
	}
	d.next.arrive(r)
}

func (d *random) leave(r *request) { d.next.leave(r) }

// split gives each tenant a fixed rate of its own.
type split struct {
	sim     *sim.Sim
	rate    float64
	tenants map[string]*splitShare
	next    door
}

type splitShare struct{ level, at float64 }

func newSplit(s *sim.Sim, rate float64) *split {
	return &split{sim: s, rate: rate, tenants: map[string]*splitShare{}, next: &line{sim: s, limit: fairWorkers, bound: fairQueue}}
}

func (d *split) arrive(r *request) {
	burst := d.rate / 10
	now := float64(d.sim.Now()) / float64(second)
	share := d.tenants[r.tenant]
	if share == nil {
		share = &splitShare{burst, now}
		d.tenants[r.tenant] = share
	}
	share.level = min(burst, share.level+d.rate*(now-share.at))
	if share.at = now; share.level < 1 {
		r.refuse()
		return
	}
	share.level--
	d.next.arrive(r)
}

func (d *split) leave(r *request) { d.next.leave(r) }

// shuffled has 64 queues that take turns. A tenant is dealt eight of them, and its
// requests go to the shortest, as in Kubernetes' API priority and fairness.
type shuffled struct {
	sim    *sim.Sim
	limit  int
	bound  int // of each queue
	inside int
	queues [64]queue[*request]
	next   int
	hands  map[string][]int
}

func (d *shuffled) arrive(r *request) {
	hand := d.hands[r.tenant]
	if hand == nil {
		hand = d.sim.Rand.Perm(len(d.queues))[:8]
		d.hands[r.tenant] = hand
	}
	shortest := &d.queues[hand[0]]
	for _, i := range hand[1:] {
		if q := &d.queues[i]; q.len() < shortest.len() {
			shortest = q
		}
	}
	if shortest.len() >= d.bound {
		r.refuse()
		return
	}
	shortest.push(r)
	d.fill()
}

func (d *shuffled) leave(*request) {
	d.inside--
	d.fill()
}

func (d *shuffled) fill() {
	for empty := 0; d.inside < d.limit && empty < len(d.queues); {
		q := &d.queues[d.next]
		d.next = (d.next + 1) % len(d.queues)
		if q.len() == 0 {
			empty++
			continue
		}
		empty = 0
		d.inside++
		q.oldest().begin()
	}
}
