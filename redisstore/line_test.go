package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/breaker"
)

// A batching client notes the first key of each call that it sends, by batch,
// and answers with it after a while.
type batching struct {
	takes time.Duration
	fails error
	panic bool

	mu   sync.Mutex
	sent [][]string
}

func (b *batching) Eval(context.Context, *Script, []string, []string) ([]string, error) {
	return nil, errors.New("called by itself")
}

func (b *batching) evalAll(batch []*call) {
	var keys []string
	for _, w := range batch {
		keys = append(keys, w.keys[0])
	}
	b.mu.Lock()
	b.sent = append(b.sent, keys)
	b.mu.Unlock()
	time.Sleep(b.takes)
	if b.panic {
		panic("no such thing")
	}
	for _, w := range batch {
		w.reply, w.err = w.keys[:1], b.fails
	}
}

// all lets n calls come at one moment, and returns their errors in order.
func all(t *testing.T, s *Store, n int) []error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			key := strconv.Itoa(i)
			var reply []string
			if reply, errs[i] = s.eval(t.Context(), anyScript, []string{key}, nil); errs[i] == nil {
				assert.Equal(t, []string{key}, reply, "each gets its own answer")
			}
		})
	}
	group.Wait()
	return errs
}

func TestLineGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batching{takes: time.Millisecond}
		for _, err := range all(t, &Store{Client: b}, 500) {
			require.NoError(t, err)
		}
		assert.LessOrEqual(t, len(b.sent), maxSenders+500/maxBatch+2)
		for _, keys := range b.sent {
			assert.LessOrEqual(t, len(keys), maxBatch)
		}
		sent := slices.Concat(b.sent...)
		slices.Sort(sent)
		assert.Len(t, slices.Compact(sent), 500, "each is sent once")
	})
}

// Calls that come one after the other do not wait for each other.
func TestLineOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batching{takes: time.Millisecond}
		s := &Store{Client: b}
		start := time.Now()
		for range 10 {
			require.NoError(t, all(t, s, 1)[0])
		}
		assert.Equal(t, 10*time.Millisecond, time.Since(start))
		assert.Len(t, b.sent, 10)
		synctest.Wait()
		assert.Zero(t, s.circuit.line.senders, "no goroutine stays")
	})
}

// What nobody waits for any more is not sent: a decision that was made without
// Redis is not charged when Redis is back.
func TestLineSendsNothingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batching{takes: time.Second}
		s := &Store{Client: b}
		s.circuit.prepared(s).breaker = &breaker.Breaker{Failures: -1}
		var group sync.WaitGroup
		leave, cancel := context.WithCancel(t.Context())
		for i := range maxSenders {
			group.Go(func() { _, _ = s.eval(t.Context(), anyScript, []string{"first " + strconv.Itoa(i)}, nil) })
			synctest.Wait() // each has a sender of its own
		}
		for range 10 {
			group.Go(func() {
				_, err := s.eval(t.Context(), anyScript, []string{"late"}, nil)
				assert.ErrorIs(t, err, ErrTimeout)
			})
			group.Go(func() {
				_, err := s.eval(leave, anyScript, []string{"left"}, nil)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		time.Sleep(10 * time.Millisecond)
		cancel()
		group.Wait()
		time.Sleep(2 * time.Second)
		assert.Len(t, b.sent, maxSenders)
		assert.Empty(t, s.circuit.places)
		require.NoError(t, all(t, &Store{Client: &batching{}}, 1)[0])
	})
}

// To a Redis that is far away, more batches are under way: nobody waits for much
// longer than a round trip takes.
func TestLineToAFarRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, far := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 45 * time.Millisecond} {
			b := &batching{takes: far}
			s := &Store{Client: b}
			require.NoError(t, all(t, s, 1)[0], "how far it is shows")
			for _, err := range all(t, s, maxInFlight) {
				require.NoError(t, err, "all at one moment, %v", far)
			}
			var group sync.WaitGroup
			for i := range 500 {
				group.Go(func() {
					start := time.Now()
					_, err := s.eval(t.Context(), anyScript, []string{strconv.Itoa(i)}, nil)
					assert.NoError(t, err, "one after the other, %v", far)
					assert.LessOrEqual(t, time.Since(start), far+2*mostWait)
				})
				time.Sleep(100 * time.Microsecond)
			}
			group.Wait()
			synctest.Wait()
			time.Sleep(2 * mostWait)
			assert.Zero(t, s.circuit.line.senders)
			assert.False(t, s.circuit.line.watched)
		}
	})
}

// A Redis that hangs is not sent more for that: what waits would run when it is
// back, and nobody would know.
func TestLineToARedisThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batching{takes: 300 * time.Microsecond}
		s := &Store{Client: b}
		require.NoError(t, all(t, s, 1)[0])
		b.takes = time.Second
		for range 3 {
			for _, err := range all(t, s, maxInFlight) {
				require.Error(t, err)
			}
		}
		time.Sleep(2 * time.Second)
		assert.LessOrEqual(t, len(slices.Concat(b.sent...)), 1+(maxSenders+1)*maxBatch)
	})
}

// Who was not sent in time says nothing about Redis.
func TestLineIsNotTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{Client: &batching{}}
		line := &s.circuit.prepared(s).line
		line.senders = maxSenders // who answer others
		answers := time.AfterFunc(10*time.Millisecond, func() { line.answered([]*call{{}}, 0) })
		for _, err := range all(t, s, 100*openAfter) {
			require.ErrorIs(t, err, ErrBusy)
		}
		answers.Stop()
		line.mu.Lock()
		line.senders = 0
		line.mu.Unlock()
		require.NoError(t, all(t, s, 1)[0], "the circuit is closed")

		time.Sleep(time.Second)
		line.mu.Lock()
		line.senders = maxSenders // who answer nobody
		line.mu.Unlock()
		for _, err := range all(t, s, openAfter) {
			require.ErrorIs(t, err, ErrTimeout)
		}
		require.ErrorAs(t, all(t, s, 1)[0], new(*breaker.OpenError))
		line.mu.Lock()
		line.senders = 0
		line.mu.Unlock()
	})
}

func TestLineFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range all(t, &Store{Client: &batching{fails: wrongType}}, 50) {
			require.ErrorIs(t, err, wrongType)
		}
		s := &Store{Client: &batching{panic: true}}
		for _, err := range all(t, s, 50) {
			require.EqualError(t, err, "redisstore: the client library panicked: no such thing")
		}
		assert.Empty(t, s.circuit.places)
	})
}
