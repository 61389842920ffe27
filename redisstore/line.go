package redisstore

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	// maxSenders is how many batches may be under way at once. With one, Redis is
	// idle while its answers are handed out; with two, as batches differ in size, it
	// still is at times; with more, they get small and cost more.
	maxSenders = 3
	maxBatch   = 128

	// A Redis that is far away could not be asked often enough by so few. So there may
	// be one more for each mostWait of a round trip, of two at least and up to maxFar:
	// when a full batch waits, or a call has waited for that long. One that hangs is
	// not sent more than that, for it would run later what nobody waits for.
	mostWait = 2 * time.Millisecond
	maxFar   = 32
)

// A batcher is a Client that can send several scripts in one piece, to one
// server. It sets reply and err of each call.
type batcher interface {
	evalAll(batch []*call)
}

// A line is where calls wait to be sent together: while as many batches as may
// be are under way, those that come gather for the next one. That saves most of
// what goroutines and system calls cost, here and in Redis.
type line struct {
	mu      sync.Mutex
	waiting []*call
	senders int
	took    time.Duration // by the batch that was last answered,
	at      time.Time     // and when that was
	watch   *time.Timer   // runs while watched
	watched bool
}

// join adds a call, and reports whether it needs a new sender. If it does not,
// watch is called in time.
func (l *line) join(w *call, watch func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, w)
	switch {
	case l.senders < maxSenders, len(l.waiting)%maxBatch == 0 && l.mayGrow():
		l.senders++
		return true
	case l.watch == nil:
		l.watch = time.AfterFunc(mostWait, watch)
	case !l.watched:
		l.watch.Reset(mostWait)
	}
	l.watched = true
	return false
}

// waitsLong reports whether one more sender is needed since somebody has waited
// for too long. The line is watched until it is empty.
func (l *line) waitsLong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.watched = false
		return false
	}
	l.watch.Reset(mostWait)
	if time.Since(l.waiting[0].start) < mostWait || !l.mayGrow() {
		return false
	}
	l.senders++
	return true
}

func (l *line) mayGrow() bool {
	return l.took >= 2*mostWait && l.senders < maxSenders+int(min(l.took/mostWait, maxFar))
}

// answered notes how long a batch took, unless it failed.
func (l *line) answered(batch []*call, took time.Duration) {
	if err := batch[0].err; err != nil {
		if _, ok := replied(err); !ok {
			return
		}
	}
	l.mu.Lock()
	l.took, l.at = took, time.Now()
	l.mu.Unlock()
}

// answeredSince tells a line that is too long from a Redis that hangs.
func (l *line) answeredSince(start time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at.After(start)
}

func (c *circuit) watchLine() {
	if c.line.waitsLong() {
		c.sendBatches()
	}
}

// next fills batch with the calls that wait longest. If there are none, the
// sender has to go; and if it is not its first batch it also has to if there are
// other senders, and no full batch.
func (l *line) next(batch []*call, first bool) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), maxBatch)
	if n == 0 || !first && l.senders > maxSenders && n < maxBatch {
		l.senders--
		return nil
	}
	batch = append(batch[:0], l.waiting[:n]...)
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	return batch
}

// sendBatches is the goroutine of a sender. It goes when it is not needed.
func (c *circuit) sendBatches() {
	var batch []*call
	for first := true; ; first = false {
		// Those who can run now may have something to send, above all the callers
		// whom the batch before has just answered.
		runtime.Gosched()
		if batch = c.line.next(batch, first); batch == nil {
			return
		}
		send, now := batch[:0], time.Now()
		for _, w := range batch {
			w.sent = now
			if w.state.CompareAndSwap(inLine, running) {
				send = append(send, w)
			} else {
				w.err = errNotSent
				c.finish(w) // who asked has gone; what was not sent stays so
			}
		}
		if len(send) > 0 {
			c.sendAll(send)
			c.line.answered(send, time.Since(now))
		}
		for _, w := range send {
			c.finish(w)
		}
	}
}

func (c *circuit) sendAll(batch []*call) {
	defer func() {
		if p := recover(); p != nil {
			for _, w := range batch {
				w.reply, w.err = nil, &brokenError{fmt.Sprint(p)}
			}
		}
	}()
	c.batcher.evalAll(batch)
}
