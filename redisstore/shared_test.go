package redisstore

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// Who leaves while Redis is asked takes nothing: the answer that comes later is
// given back.
func TestReserveOfWhoHasLeft(t *testing.T) {
	redis := redistest.Start(t)
	s := storeAt(t, redis.Addr)
	p := perSecond(1, 1)
	wait, first := reserve(t, s, p, 1, 0)
	require.Zero(t, wait)
	require.NoError(t, first.Cancel(t.Context()))

	redis.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*ms, cancel)
	start := time.Now()
	_, err := s.Reserve(ctx, "k", p, 1, time.Hour)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, time.Since(start), time.Second)
	_, err = s.Reserve(ctx, "k", p, 1, time.Hour)
	require.ErrorIs(t, err, context.Canceled)
	redis.Resume()
	require.Eventually(t, func() bool {
		wait, g := reserve(t, s, p, 1, 0)
		if wait != 0 {
			return false
		}
		require.NoError(t, g.Cancel(t.Context()))
		return true
	}, 500*ms, 5*ms)
}

// A script that may have run is not sent again, and a store that hangs is left
// in time.
func TestReserveIsSentOnce(t *testing.T) {
	redis := redistest.Start(t)
	s := storeAt(t, redis.Addr)
	var told atomic.Int64
	s.Timeout, s.OnDegraded = 50*ms, func(error) { told.Add(1) }
	_, g := reserve(t, s, perSecond(1, 10), 1, 0)
	redis.ResetCalls()
	redis.Pause()
	start := time.Now()
	_, err := s.Reserve(t.Context(), "k", perSecond(1, 10), 1, time.Hour)
	require.ErrorIs(t, err, ErrTimeout)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "or the pacer would take it for a refusal")
	require.ErrorIs(t, s.Hold(t.Context(), "k", time.Hour), ErrTimeout)
	require.ErrorIs(t, g.Cancel(t.Context()), ErrTimeout)
	require.NoError(t, g.Cancel(t.Context()), "which may have run")
	require.Less(t, time.Since(start), time.Second)
	redis.Resume()
	time.Sleep(200 * ms)
	assert.LessOrEqual(t, redis.Calls()["evalsha"], 3)
	assert.EqualValues(t, 1, told.Load())
}

// What one process is told reaches another when it next asks.
func TestHoldReachesOtherPacers(t *testing.T) {
	redis := redistest.Start(t)
	p := &pacer.Pacer{Rate: pacer.Per(100, time.Second), Burst: 10, Shared: storeAt(t, redis.Addr)}
	q := &pacer.Pacer{Rate: pacer.Per(100, time.Second), Burst: 10, Shared: storeAt(t, redis.Addr)}
	for range 3 {
		release, err := q.Wait(t.Context(), "k", 1)
		require.NoError(t, err)
		release()
	}
	start := time.Now()
	p.Hold("k", start.Add(300*ms))
	ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
	defer cancel()
	_, err := q.Wait(ctx, "k", 1)
	var late *pacer.WaitError
	require.ErrorAs(t, err, &late)
	require.Less(t, time.Since(start), 100*ms, "who would wait too long knows at once")
	for range 3 {
		release, err := q.Wait(t.Context(), "k", 1)
		require.NoError(t, err)
		release()
	}
	require.GreaterOrEqual(t, time.Since(start), 300*ms+20*ms, "and the bucket is empty then")
}

// While Redis is gone two processes together keep to the pace, and when it is
// back they share it again within a second.
func TestPaceWithoutRedis(t *testing.T) {
	redis := redistest.Start(t)
	var served atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer provider.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var failed atomic.Int64
	for range 2 {
		s := storeAt(t, redis.Addr)
		s.Timeout, s.Processes, s.OnDegraded = 0, 2, func(error) { failed.Add(1) }
		transport := polite.NewTransport(nil)
		transport.Pacer = &pacer.Pacer{Rate: pacer.Per(100, time.Second), Burst: 5, Shared: s}
		t.Cleanup(transport.CloseIdleConnections)
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					r, _ := http.NewRequestWithContext(ctx, http.MethodGet, provider.URL, nil)
					if resp, err := transport.RoundTrip(r); err == nil {
						_ = resp.Body.Close()
					} else {
						assert.ErrorIs(t, err, context.Canceled)
					}
				}
			})
		}
	}
	during := func(d time.Duration) int64 { // in a second of such
		before := served.Load()
		time.Sleep(d)
		return (served.Load() - before) * int64(time.Second/d)
	}
	span := 500 * ms
	if long {
		span = time.Second
	}
	assert.InDelta(t, 100, during(span), 30, "shared")
	redis.Kill()
	time.Sleep(200 * ms)
	assert.InDelta(t, 100, during(span), 30, "each its share")
	redis.Restart()
	time.Sleep(1000 * ms) // half a second until it is asked, and the circuit's 400 ms
	if !long {            // many tests run beside each other, and it may take longer
		for range 8 {
			if before := failed.Load(); during(span) < 130 && failed.Load() == before {
				break
			}
		}
	}
	before := failed.Load()
	assert.InDelta(t, 100, during(span), 30, "shared again")
	assert.LessOrEqual(t, failed.Load()-before, int64(5))
	assert.NotZero(t, before)
}
