package limiter

import (
	"sync/atomic"
	"time"
)

// clock tells one Memory the time, as nanoseconds since the Unix epoch.
//
// steady starts as the wall clock was then and goes on by the monotonic clock,
// which costs half of a reading of both and never steps: what counts elapsed
// time goes by it. wall is steady and an offset, compared with the wall clock
// once a second: windows and quotas that the calendar begins go by it. It is
// anchored per Memory, as a program may have several times (testing/synctest).
type clock struct {
	base    time.Time // both readings, as of the first use
	unix    int64     // of base
	offset  atomic.Int64
	compare atomic.Int64 // steady instant of the next comparison
}

const (
	// compareEvery is how long a step of the wall clock may go unnoticed.
	compareEvery = time.Second
	// compareWithin is by how much wall may differ from the wall clock: a
	// clock that is being slewed makes no steps of it.
	compareWithin = time.Millisecond
)

func (c *clock) start() {
	c.base = time.Now()
	c.unix = c.base.UnixNano()
	c.compare.Store(c.unix + int64(compareEvery))
}

func (c *clock) steady() int64 {
	return c.unix + int64(time.Since(c.base))
}

// wall is the calendar's time at a steady instant.
func (c *clock) wall(steady int64) int64 {
	if due := c.compare.Load(); steady >= due && c.compare.CompareAndSwap(due, steady+int64(compareEvery)) {
		now := time.Now()
		c.correct(c.unix+int64(now.Sub(c.base)), now.UnixNano())
	}
	return steady + c.offset.Load()
}

// correct makes wall tell what the wall clock told at a steady instant.
func (c *clock) correct(steady, wall int64) {
	offset := wall - steady
	if d := offset - c.offset.Load(); d >= int64(compareWithin) || d <= -int64(compareWithin) {
		c.offset.Store(offset)
	}
}
