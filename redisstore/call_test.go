package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/breaker"
)

// A fakeClient answers as its function does.
type fakeClient func(ctx context.Context) ([]string, error)

func (f fakeClient) Eval(ctx context.Context, _ *Script, _, _ []string) ([]string, error) {
	return f(ctx)
}

// A selfEnding fakeClient needs no context.
type selfEnding struct{ fakeClient }

func (selfEnding) endsItself() {}

var (
	anyScript = NewScript("return 1")
	wrongType = &ReplyError{Text: "WRONGTYPE Operation against a key holding the wrong kind of value"}
	errReset  = errors.New("read: connection reset by peer")
)

func answers(reply []string, err error) fakeClient {
	return func(context.Context) ([]string, error) { return reply, err }
}

// hangs never answers before the test releases it, whatever the context says.
func hangs(release <-chan struct{}) fakeClient {
	return func(context.Context) ([]string, error) { <-release; return nil, nil }
}

func (s *Store) evalAny(ctx context.Context) error {
	_, err := s.eval(ctx, anyScript, nil, nil)
	return err
}

func TestEvalHandsOver(t *testing.T) {
	s := &Store{Client: answers([]string{"1", "2"}, nil)}
	reply, err := s.eval(t.Context(), anyScript, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"1", "2"}, reply)
	for _, err := range []error{errReset, wrongType} {
		s := &Store{Client: answers(nil, err)}
		assert.ErrorIs(t, s.evalAny(t.Context()), err)
	}
}

func TestEvalDeadline(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		context time.Duration
		want    time.Duration
		err     error
	}{
		{"the default", 0, 0, 50 * time.Millisecond, ErrTimeout},
		{"a timeout", time.Second, 0, time.Second, ErrTimeout},
		{"a context that ends before", time.Second, time.Millisecond, time.Millisecond, context.DeadlineExceeded},
		{"a context that ends later", time.Second, time.Minute, time.Second, ErrTimeout},
		{"the context alone", -1, time.Minute, time.Minute, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				s := &Store{Client: hangs(release), Timeout: c.timeout}
				ctx, cancel := context.WithCancel(t.Context())
				if c.context > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), c.context)
				}
				defer cancel()
				start := time.Now()
				assert.ErrorIs(t, s.evalAny(ctx), c.err)
				assert.Equal(t, c.want, time.Since(start))
			})
		})
	}
}

// A client that obeys contexts is told the deadline and nothing of the caller's
// cancellation; one that ends by itself gets no context to watch.
func TestEvalContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var got context.Context
		see := fakeClient(func(ctx context.Context) ([]string, error) { got = ctx; return nil, nil })
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Minute)
		defer cancel()
		for _, c := range []struct {
			timeout, want time.Duration
		}{{0, 50 * time.Millisecond}, {-1, time.Minute}, {time.Hour, time.Hour}} {
			s := &Store{Client: see, Timeout: c.timeout}
			require.NoError(t, s.evalAny(ctx))
			until, ok := got.Deadline()
			require.True(t, ok)
			assert.Equal(t, c.want, time.Until(until))
			assert.Equal(t, "value", got.Value(key{}))
		}
		s := &Store{Client: selfEnding{see}}
		require.NoError(t, s.evalAny(ctx))
		assert.Nil(t, got.Done())
	})
}

func TestEvalEndedContextSendsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &Store{Client: fakeClient(func(context.Context) ([]string, error) { t.Error("sent"); return nil, nil })}
	assert.ErrorIs(t, s.evalAny(ctx), context.Canceled)
}

// Calls share an alarm, and still each ends no more than a sixty-fourth early.
func TestEvalDeadlineOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		s := &Store{Client: hangs(release), Timeout: 64 * time.Millisecond}
		s.circuit.prepared(s).breaker = &breaker.Breaker{Failures: -1}
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				start := time.Now()
				assert.ErrorIs(t, s.evalAny(t.Context()), ErrTimeout)
				took := time.Since(start)
				assert.LessOrEqual(t, took, 64*time.Millisecond)
				assert.Greater(t, took, 63*time.Millisecond)
			})
			time.Sleep(300 * time.Microsecond)
		}
		group.Wait()
	})
}

// With every place taken a call waits for one, and sends nothing if none gets
// free in time.
func TestEvalPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var sent atomic.Int64
		s := &Store{Client: fakeClient(func(context.Context) ([]string, error) {
			sent.Add(1)
			<-release
			return nil, nil
		})}
		s.circuit.prepared(s).breaker = &breaker.Breaker{Failures: -1}
		var busy, late atomic.Int64
		var group sync.WaitGroup
		for range maxPooled + 10 {
			group.Go(func() {
				switch err := s.evalAny(t.Context()); {
				case errors.Is(err, ErrBusy):
					busy.Add(1)
				case errors.Is(err, ErrTimeout):
					late.Add(1)
				}
			})
		}
		group.Wait()
		assert.EqualValues(t, maxPooled, sent.Load())
		assert.EqualValues(t, maxPooled, late.Load())
		assert.EqualValues(t, 10, busy.Load())

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, s.evalAny(ctx), context.DeadlineExceeded)

		waits := make(chan error)
		go func() { waits <- s.evalAny(t.Context()) }()
		synctest.Wait()
		close(release)
		require.NoError(t, <-waits, "places come back with the real answers")
		synctest.Wait()
		assert.Empty(t, s.circuit.places)
	})
}

// A client that says how much it sends at once is given no more, and who waits is
// not taken for a store that is down.
func TestEvalPlacesOfClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		s := &Store{Client: pooled{fakeClient(func(context.Context) ([]string, error) {
			for n := now.Add(1); n > most.Load(); {
				most.Store(n)
			}
			time.Sleep(11 * time.Millisecond)
			now.Add(-1)
			return nil, nil
		})}}
		var busy, late atomic.Int64
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				switch err := s.evalAny(t.Context()); {
				case errors.Is(err, ErrBusy):
					busy.Add(1)
				case errors.Is(err, ErrTimeout): // it was sent, after most of its time
					late.Add(1)
				}
			})
		}
		group.Wait()
		assert.EqualValues(t, 3, most.Load())
		assert.EqualValues(t, 3, late.Load())
		assert.EqualValues(t, 100-5*3, busy.Load())
		synctest.Wait()
		time.Sleep(time.Second)
		require.NoError(t, s.evalAny(t.Context()), "the circuit is closed")
	})
}

// A pooled fakeClient has three connections.
type pooled struct{ fakeClient }

func (pooled) AtOnce() int { return 3 }

func TestEvalPanic(t *testing.T) {
	s := &Store{Client: fakeClient(func(context.Context) ([]string, error) { panic("index out of range") })}
	for range 3 * openAfter {
		require.EqualError(t, s.evalAny(t.Context()), "redisstore: the client library panicked: index out of range")
	}
	assert.Empty(t, s.circuit.places)
}

// What a call used is used again, but never while its goroutine still has it.
func TestEvalMixed(t *testing.T) {
	var n atomic.Int64
	s := &Store{Timeout: time.Millisecond, Client: fakeClient(func(context.Context) ([]string, error) {
		i := n.Add(1)
		if i%7 == 0 {
			time.Sleep(2 * time.Millisecond)
		}
		return []string{"right"}, nil
	})}
	s.circuit.prepared(s).breaker = &breaker.Breaker{Failures: -1}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 0 {
					time.AfterFunc(500*time.Microsecond, cancel)
				}
				reply, err := s.eval(ctx, anyScript, []string{"key"}, []string{"arg"})
				cancel()
				if err == nil {
					assert.Equal(t, []string{"right"}, reply)
				} else {
					assert.True(t, slices.ContainsFunc([]error{ErrTimeout, context.Canceled}, func(e error) bool { return errors.Is(err, e) }), "%v", err)
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkEvalOpen(b *testing.B) {
	s := &Store{Client: answers(nil, errReset)}
	for range openAfter {
		_ = s.evalAny(b.Context())
	}
	s.circuit.breaker.OpenFor = time.Hour
	b.ReportAllocs()
	for b.Loop() {
		_ = s.evalAny(b.Context())
	}
}
