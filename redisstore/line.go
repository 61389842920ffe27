package redisstore

import (
	"fmt"
	"runtime"
	"sync"
)

const (
	// maxSenders is how many batches may be under way at once. With one, Redis is
	// idle while its answers are handed out; with two, a call waits for at most
	// half a round trip to be sent; with more, batches get small and cost more.
	maxSenders = 2
	maxBatch   = 128
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
}

// join adds a call, and reports whether it needs a new sender.
func (l *line) join(w *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, w)
	if l.senders == maxSenders {
		return false
	}
	l.senders++
	return true
}

// next fills batch with the calls that wait longest. If there are none, the
// sender has to go.
func (l *line) next(batch []*call) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), maxBatch)
	if n == 0 {
		l.senders--
		return nil
	}
	batch = append(batch[:0], l.waiting[:n]...)
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	return batch
}

// sendBatches is the goroutine of a sender. It goes when nobody waits.
func (c *circuit) sendBatches() {
	var batch []*call
	for {
		// Those who can run now may have something to send, above all the callers
		// whom the batch before has just answered.
		runtime.Gosched()
		if batch = c.line.next(batch); batch == nil {
			return
		}
		send := batch[:0]
		for _, w := range batch {
			if w.state.Load() == running {
				send = append(send, w)
			} else {
				w.err = errNotSent
				c.finish(w) // who asked has gone; what was not sent stays so
			}
		}
		if len(send) > 0 {
			c.sendAll(send)
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
