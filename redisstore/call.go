package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/redisstore/internal/redact"
)

// How many scripts may be under way at once, those that nobody waits for any more
// included. What rueidis has under way stays below the 1,024 places in the queue
// of its connection: when that is full, a call waits for a place whatever its
// context says. A library with a pool gains nothing by more calls than it has
// connections; they only wait there instead of here.
const (
	maxInFlight = 1000
	maxPooled   = 250
)

// ErrTimeout says that Redis did not answer within the Timeout of the Store.
// The script may have run.
var ErrTimeout = errors.New("redisstore: no answer in time")

// ErrBusy says that nothing was sent, because as many scripts as can be were
// under way for the whole Timeout. It says nothing about Redis: the circuit stays
// as it is.
var ErrBusy = errors.New("redisstore: too many scripts are under way")

// eval runs a script for a verb of the Store; see [circuit.eval].
func (s *Store) eval(ctx context.Context, script *Script, keys, args []string) ([]string, error) {
	s.circuit.once.Do(func() { s.circuit.prepare(s.Client, s.Timeout) })
	return s.circuit.eval(ctx, script, keys, args)
}

// A circuit is the way from a Store to Redis. It runs scripts so that each call
// ends in time, whatever the client library does, and none starts while the
// store is known to be down.
//
// A call is sent by another goroutine. When the time is up the caller leaves, and
// the call stays until the client library lets it go. It keeps its place until
// then, so that there are never too many.
type circuit struct {
	once       sync.Once
	client     Client
	timeout    time.Duration // negative: none
	endsItself bool          // the client's calls end soon after the timeout without a context
	clustered  func() bool   // whether Redis is a cluster; nil: it is not
	breaker    *breaker.Breaker
	places     chan struct{}
	clock      alarms
	batcher    batcher // nil: each call is sent by itself
	line       line
	free       sync.Pool // of *call; not shared, for channels belong to a synctest bubble
}

// prepare takes the fields of a Store: zero means the default.
func (c *circuit) prepare(client Client, timeout time.Duration) {
	if timeout == 0 {
		timeout = defaultTimeout
	}
	_, c.endsItself = client.(interface{ endsItself() })
	if cluster, ok := client.(interface{ Clustered() bool }); ok {
		c.clustered = cluster.Clustered
	}
	c.batcher, _ = client.(batcher)
	c.client, c.timeout, c.clock.after = client, timeout, timeout
	c.breaker = newBreaker(timeout)
	places := maxInFlight
	if c.batcher == nil {
		places = maxPooled
	}
	if bounded, ok := client.(interface{ AtOnce() int }); ok && bounded.AtOnce() > 0 {
		places = min(places, bounded.AtOnce())
	}
	c.places = make(chan struct{}, places)
}

// A call is one script under way.
type call struct {
	done  chan struct{}
	state atomic.Int32

	start  time.Time
	sent   time.Time // to the client
	permit breaker.Permit
	ctx    context.Context
	script *Script
	keys   []string
	args   []string
	reply  []string
	err    error
}

const (
	inLine   int32 = iota // not sent yet
	running               // given to the client
	ended                 // reply and err are there, and done tells it
	timedOut              // nobody waits; the circuit knows
	left                  // nobody waits; the circuit is still to be told
)

// eval runs the script. It returns within the timeout, and as soon as ctx ends;
// the goroutine may read keys and args after that, so they must not change. The
// error is that of ctx, ErrTimeout, ErrBusy, a *breaker.OpenError, a
// *ReplyError, or one that the client library returned. After ErrBusy and
// *breaker.OpenError nothing was sent; after any other one the script may have
// run.
func (c *circuit) eval(ctx context.Context, s *Script, keys, args []string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	permit, err := c.breaker.Enter(c.part(keys), time.Time{})
	if err != nil {
		return nil, err
	}
	alarm := c.clock.next()
	if err := c.place(ctx, alarm); err != nil {
		outcome := breaker.Neutral
		if errors.Is(err, ErrBusy) {
			outcome = breaker.Throttled // says nothing, but a probe it fails
		}
		permit.Done(outcome, 0, time.Time{})
		return nil, err
	}
	w, ok := c.free.Get().(*call)
	if !ok {
		w = &call{done: make(chan struct{}, 1)}
	}
	w.permit, w.ctx, w.script, w.keys, w.args = permit, ctx, s, keys, args
	c.start(w)
	select {
	case <-w.done:
	case <-alarm:
		if w.state.CompareAndSwap(inLine, timedOut) {
			if c.line.answeredSince(w.start) {
				permit.Done(breaker.Throttled, 0, time.Time{})
				return nil, ErrBusy
			}
			permit.Done(breaker.Unreachable, 0, time.Time{}) // nobody was answered
			return nil, ErrTimeout
		}
		if w.state.CompareAndSwap(running, timedOut) {
			permit.Done(c.late(w), 0, time.Time{})
			return nil, ErrTimeout
		}
		<-w.done
	case <-ctx.Done():
		if w.state.CompareAndSwap(inLine, left) || w.state.CompareAndSwap(running, left) {
			return nil, ctx.Err()
		}
		<-w.done
	}
	reply, err := w.reply, w.err
	permit.Done(judge(err), 0, time.Time{})
	c.give(w)
	if err != nil && redact.Text(err.Error()) != err.Error() {
		err = cleaned(err) // a Client of somebody else's
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrTimeout, err) // the client library was first to see it
	}
	return reply, err
}

// late judges a call that was sent and not answered in time. If most of its time
// went by before it was sent, that was not Redis's.
func (c *circuit) late(w *call) breaker.Outcome {
	if time.Since(w.sent) < c.timeout/2 {
		return breaker.Throttled
	}
	return breaker.Unreachable
}

// part returns the key of the circuit that these keys belong to.
func (c *circuit) part(keys []string) string {
	if c.clustered == nil || len(keys) == 0 || !c.clustered() {
		return theStore
	}
	return partNames[hashSlot(keys[0])/partSize]
}

// place waits for a place.
func (c *circuit) place(ctx context.Context, alarm <-chan struct{}) error {
	select {
	case c.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case c.places <- struct{}{}:
		return nil
	case <-alarm:
		return ErrBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start sends a call, by itself or with others.
func (c *circuit) start(w *call) {
	w.start = time.Now()
	switch {
	case c.batcher == nil || c.clustered != nil && c.clustered():
		w.sent = w.start
		w.state.Store(running)
		go c.run(w)
	case c.line.join(w, c.watchLine):
		go c.sendBatches()
	}
}

// run is the goroutine of a call.
func (c *circuit) run(w *call) {
	w.reply, w.err = c.send(w)
	c.finish(w)
}

// finish gives back the place of a call, and hands its result to who waits.
func (c *circuit) finish(w *call) {
	<-c.places
	if w.state.CompareAndSwap(running, ended) {
		w.done <- struct{}{}
		return
	}
	if w.state.Load() == left {
		outcome := judge(w.err)
		if w.err == errNotSent {
			outcome = breaker.Neutral
		} else if c.timeout > 0 && time.Since(w.sent) > c.timeout {
			outcome = breaker.Unreachable // an answer, but for nobody
		}
		w.permit.Done(outcome, 0, time.Time{})
	}
}

func (c *circuit) send(w *call) (reply []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, &brokenError{fmt.Sprint(p)}
		}
	}()
	if c.endsItself {
		return c.client.Eval(context.Background(), w.script, w.keys, w.args)
	}
	// The caller's cancellation stays out: a client library would drop the
	// connection for it.
	ctx, cancel := context.WithoutCancel(w.ctx), func() {}
	if c.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
	} else if until, ok := w.ctx.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	return c.client.Eval(ctx, w.script, w.keys, w.args)
}

// give takes back a call that has no goroutine.
func (c *circuit) give(w *call) {
	w.state.Store(inLine)
	w.permit, w.ctx, w.script, w.keys, w.args, w.reply, w.err = breaker.Permit{}, nil, nil, nil, nil, nil, nil
	c.free.Put(w)
}

// errNotSent is the end of a call that had waited for too long to be sent.
var errNotSent = errors.New("redisstore: not sent")
