package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/breaker"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		err  error
		want breaker.Outcome
	}{
		{nil, breaker.Success},
		{errReset, breaker.Unreachable},
		{context.DeadlineExceeded, breaker.Unreachable},
		{wrongType, breaker.Success},
		{errReply, breaker.Success},
		{&ReplyError{Text: "ERR value is not an integer or out of range"}, breaker.Success},
		{&ReplyError{Text: "TRYAGAIN Multiple keys request during rehashing of slot"}, breaker.Success},
		{&ReplyError{Text: "NOPERM this user has no permissions to access one of the keys used as arguments"}, breaker.Success},
		{&ReplyError{Text: "OOM command not allowed when used memory > 'maxmemory'. script: 0a, on @user_script:1."}, breaker.Failure},
		{&ReplyError{Text: "ERR Error running script (call to f_0a): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'."}, breaker.Failure},
		{&ReplyError{Text: "ERR Error running script (call to f_0a): @user_script:1: WRONGTYPE Operation against a key"}, breaker.Success},
		{&ReplyError{Text: "LOADING Redis is loading the dataset in memory"}, breaker.Failure},
		{&ReplyError{Text: "READONLY You can't write against a read only replica."}, breaker.Failure},
		{&ReplyError{Text: "WRONGPASS invalid username-password pair or user is disabled."}, breaker.Failure},
		{&ReplyError{Text: "ERR max number of clients reached"}, breaker.Failure},
		{redis.ErrClosed, breaker.Unreachable},
		{foreignError("WRONGTYPE Operation"), breaker.Success},
		{foreignError("CLUSTERDOWN The cluster is down"), breaker.Failure},
		{&brokenError{"index out of range"}, breaker.Neutral},
	} {
		assert.Equal(t, c.want, judge(c.err), "%v", c.err)
	}
}

type foreignError string

func (e foreignError) Error() string { return string(e) }
func (foreignError) RedisError()     {}

func isOpen(err error) bool {
	var open *breaker.OpenError
	return errors.As(err, &open)
}

func TestCircuitOpensByStoreFailuresOnly(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply error
		opens bool
	}{
		{"a poisoned key", wrongType, false},
		{"a reply that is none", errReply, false},
		{"a reset", errReset, true},
		{"out of memory", &ReplyError{Text: "OOM command not allowed"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Store{Client: answers(nil, c.reply)}
			for range openAfter {
				require.ErrorIs(t, s.evalAny(t.Context()), c.reply)
			}
			assert.Equal(t, c.opens, isOpen(s.evalAny(t.Context())))
		})
	}
}

func TestCircuitIgnoresCallersWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{Client: fakeClient(func(context.Context) ([]string, error) {
			time.Sleep(2 * time.Millisecond)
			return nil, nil
		})}
		for range 10 * openAfter {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			require.ErrorIs(t, s.evalAny(ctx), context.DeadlineExceeded)
			cancel()
		}
		time.Sleep(time.Second)
		require.NoError(t, s.evalAny(t.Context()))
	})
}

// Callers who leave early do not hide that the store is down.
func TestCircuitLearnsAfterCallersLeft(t *testing.T) {
	for name, client := range map[string]fakeClient{
		"an error": func(context.Context) ([]string, error) { time.Sleep(40 * time.Millisecond); return nil, errReset },
		"too late": func(context.Context) ([]string, error) { time.Sleep(80 * time.Millisecond); return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Store{Client: client}
				for range openAfter {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					require.ErrorIs(t, s.evalAny(ctx), context.DeadlineExceeded)
					cancel()
				}
				time.Sleep(80 * time.Millisecond) // before the circuit would let a probe by
				synctest.Wait()
				assert.True(t, isOpen(s.evalAny(t.Context())))
			})
		})
	}
}

// While the store hangs one caller at a time finds out, and the others are
// answered at once. When it is back, that is noticed within a second.
func TestCircuitProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var sent atomic.Int64
		down.Store(true)
		s := &Store{Client: fakeClient(func(ctx context.Context) ([]string, error) {
			sent.Add(1)
			if down.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, nil
		})}
		var group sync.WaitGroup
		stop := make(chan struct{})
		var recovered atomic.Pointer[time.Time]
		for range 64 {
			group.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
					}
					start := time.Now()
					err := s.evalAny(t.Context())
					took := time.Since(start)
					switch {
					case err == nil:
						now := time.Now()
						recovered.CompareAndSwap(nil, &now)
					case isOpen(err):
						assert.Zero(t, took)
					default:
						require.ErrorIs(t, err, ErrTimeout)
						assert.LessOrEqual(t, took, 50*time.Millisecond)
					}
				}
			})
		}
		time.Sleep(10 * time.Second)
		assert.Less(t, sent.Load(), int64(64+60), "64 before it opened, then at most one in 200 ms")
		down.Store(false)
		back := time.Now()
		time.Sleep(time.Second)
		require.NotNil(t, recovered.Load())
		assert.LessOrEqual(t, recovered.Load().Sub(back), maxOpenFor+60*time.Millisecond)
		close(stop)
		group.Wait()
	})
}

// A probe that finds no place has failed: what keeps the places has not ended.
func TestCircuitProbeWithoutPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		s := &Store{Client: hangs(release)}
		var group sync.WaitGroup
		for range maxPooled {
			group.Go(func() { _ = s.evalAny(t.Context()) })
		}
		group.Wait()
		require.True(t, isOpen(s.evalAny(t.Context())))
		time.Sleep(openFor)
		require.ErrorIs(t, s.evalAny(t.Context()), ErrBusy)
		assert.True(t, isOpen(s.evalAny(t.Context())))
	})
}

func TestCircuitOpenCostsLittle(t *testing.T) {
	s := &Store{Client: answers(nil, errReset)}
	for range openAfter {
		_ = s.evalAny(t.Context())
	}
	took := make([]time.Duration, 2001)
	for i := range took {
		start := time.Now()
		_ = s.evalAny(t.Context())
		took[i] = time.Since(start)
	}
	if median := at(took, 0.5); !raced {
		assert.LessOrEqual(t, median, 5*time.Microsecond)
	}
}
