package lab

import (
	"time"

	"github.com/politehttp/polite/internal/sim"
)

// epoch is when virtual time begins, for engines that take a time.Time.
var epoch = time.Unix(1_700_000_000, 0)

func instant(now int64) time.Time { return epoch.Add(time.Duration(now)) }

// caller makes calls that it gives up after a time, and may try again. The
// server does not learn that a caller gave up, unless it was told the deadline
// beforehand.
type caller struct {
	sim     *sim.Sim
	server  server
	tenant  string
	timeout int64 // of an attempt
	tells   bool  // the deadline travels with the attempt
	retries int
	wait    func(n int) int64 // before retry n; nil: none
	budget  budget            // nil: retries are free

	sent func(n int)               // attempt n leaves, the first being 0; may be nil
	lost func()                    // an attempt failed; may be nil
	over func(took int64, ok bool) // a call is over; took is of its last attempt
}

// budget is what retries are paid from: a [retry.Budget], or one to compare with.
type budget interface {
	Called(key string, now time.Time)
	Succeeded(key string, now time.Time)
	Take(key string, now time.Time) bool
}

const budgetKey = "server"

// server takes a request and says, once, whether it did what was asked.
type server interface {
	serve(r *request, done, refused func())
}

// distant is a server that has no bounds and fails by lot.
type distant struct {
	sim   *sim.Sim
	rtt   time.Duration
	fails func(now int64) bool
}

func (d *distant) serve(_ *request, done, refused func()) {
	d.sim.After(int64(d.rtt), func() {
		if d.fails(d.sim.Now()) {
			refused()
		} else {
			done()
		}
	})
}

func (c *caller) call() {
	if c.budget != nil {
		c.budget.Called(budgetKey, instant(c.sim.Now()))
	}
	c.try(0)
}

// try makes attempt n, the first being 0.
func (c *caller) try(n int) {
	if c.sent != nil {
		c.sent(n)
	}
	now := c.sim.Now()
	r := &request{tenant: c.tenant}
	if c.tells {
		r.expires = now + c.timeout
	}
	settled := false
	fail := func() {
		if !settled {
			settled = true
			c.failed(n, c.sim.Now()-now)
		}
	}
	if c.retries > n {
		c.sim.After(c.timeout, fail)
	}
	c.server.serve(r, func() {
		took := c.sim.Now() - now
		if took > c.timeout {
			fail()
		}
		if !settled {
			settled = true
			if c.budget != nil {
				c.budget.Succeeded(budgetKey, instant(c.sim.Now()))
			}
			c.over(took, true)
		}
	}, fail)
}

func (c *caller) failed(n int, took int64) {
	if c.lost != nil {
		c.lost()
	}
	if n >= c.retries || c.budget != nil && !c.budget.Take(budgetKey, instant(c.sim.Now())) {
		c.over(took, false)
		return
	}
	wait := int64(0)
	if c.wait != nil {
		wait = c.wait(n + 1)
	}
	c.sim.After(wait, func() { c.try(n + 1) })
}

// perSecond counts events in bins of a second.
type perSecond []float64

func (b *perSecond) add(now int64) {
	second := int(now / int64(time.Second))
	for len(*b) <= second {
		*b = append(*b, 0)
	}
	(*b)[second]++
}

// mean is how many a second there were in [from, to).
func (b perSecond) mean(from, to int) float64 {
	sum := 0.0
	for _, n := range b[min(from, len(b)):min(to, len(b))] {
		sum += n
	}
	return sum / float64(to-from)
}

// recovered is how many seconds after one it took until three in a row were at
// least so good, and -1 if that never came.
func (b perSecond) recovered(after int, good func(second int) bool) float64 {
	for second := after; second+3 <= len(b); second++ {
		if good(second) && good(second+1) && good(second+2) {
			return float64(second - after)
		}
	}
	return -1
}
