package lab

import (
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
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
	known   bool  // as a request's
	timeout int64 // of an attempt; 0: none
	tells   bool  // the deadline travels with the attempt
	retries int
	wait    func(n int) int64 // before retry n; nil: none
	budget  budget            // nil: retries are free

	sent     func(n int)               // attempt n leaves, the first being 0; may be nil
	answered func(took int64)          // an answer came, in time or not; may be nil
	lost     func()                    // an attempt failed; may be nil
	over     func(a *attempt, ok bool) // a call is over; a is its last attempt

	free []*attempt
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
	c.try(0, c.sim.Now())
}

// attempt is one of a call. Millions are made, so they are used again.
type attempt struct {
	request
	n           int
	call        int64 // when it began
	sent        int64
	settled     bool
	reply, fail func()
}

func (c *caller) attempt() *attempt {
	if last := len(c.free) - 1; last >= 0 {
		a := c.free[last]
		c.free = c.free[:last]
		a.settled = false
		return a
	}
	a := new(attempt)
	a.reply = func() { c.reply(a) }
	a.fail = func() { c.fail(a) }
	return a
}

// try makes attempt n, the first being 0, of a call that began at an instant.
func (c *caller) try(n int, call int64) {
	if c.sent != nil {
		c.sent(n)
	}
	a := c.attempt()
	a.n, a.call, a.sent = n, call, c.sim.Now()
	a.tenant, a.known = c.tenant, c.known
	if c.tells {
		a.expires = a.sent + c.timeout
	}
	if c.mayRepeat(n) && c.timeout > 0 {
		c.sim.After(c.timeout, a.fail)
	}
	c.server.serve(&a.request, a.reply, a.fail)
}

func (c *caller) mayRepeat(n int) bool { return n < c.retries }

// reply is an answer's arrival.
func (c *caller) reply(a *attempt) {
	took := c.sim.Now() - a.sent
	if c.answered != nil {
		c.answered(took)
	}
	if c.timeout > 0 && took > c.timeout {
		c.fail(a)
		return
	}
	if a.settled {
		return
	}
	a.settled = true
	if c.budget != nil {
		c.budget.Succeeded(budgetKey, instant(c.sim.Now()))
	}
	c.end(a, true)
}

func (c *caller) fail(a *attempt) {
	if a.settled {
		return
	}
	a.settled = true
	if c.lost != nil {
		c.lost()
	}
	if !c.mayRepeat(a.n) || c.budget != nil && !c.budget.Take(budgetKey, instant(c.sim.Now())) {
		c.end(a, false)
		return
	}
	wait := int64(0)
	if c.wait != nil {
		wait = c.wait(a.n + 1)
	}
	n, call := a.n+1, a.call
	c.sim.After(wait, func() { c.try(n, call) })
}

// end tells of a call that is over. Without a timer nothing knows the attempt
// any more.
func (c *caller) end(a *attempt, ok bool) {
	c.over(a, ok)
	if c.retries == 0 {
		c.free = append(c.free, a)
	}
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

// points has a point for each span of so many seconds before one, in its middle.
func (b perSecond) points(before, span int) (points []draw.Point) {
	for from := 0; from+span <= before; from += span {
		points = append(points, draw.Point{X: float64(from) + float64(span)/2, Y: b.mean(from, from+span)})
	}
	return points
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
