package goredis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// Who waits for a connection of a small pool, or gives up meanwhile, does not make
// Redis look as if it were away.
func TestSmallPool(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	raw := redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true, PoolSize: 4})
	t.Cleanup(func() { _ = raw.Close() })
	c, err := New(raw)
	require.NoError(t, err)
	var open atomic.Int64
	s := &redisstore.Store{Client: c, Timeout: 250 * time.Millisecond, NearKeys: -1, OnDegraded: func(err error) {
		if errors.As(err, new(*breaker.OpenError)) {
			open.Add(1)
		}
	}}
	l, err := limiter.FixedWindow("w", 1_000_000, time.Hour, limiter.ToFirst)
	require.NoError(t, err)
	_, err = s.Take(t.Context(), l.Charge("k", 1))
	require.NoError(t, err)
	proxy.Delay(30 * time.Millisecond)
	var group sync.WaitGroup
	for i := range 400 {
		group.Go(func() {
			ctx := t.Context()
			if i%2 == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 3*time.Millisecond)
				defer cancel()
			}
			_, _ = s.Take(ctx, l.Charge("k", 1))
		})
	}
	group.Wait()
	proxy.Delay(0)
	time.Sleep(100 * time.Millisecond)
	for range 20 {
		d, err := s.Take(t.Context(), l.Charge("k", 1))
		require.NoError(t, err)
		require.NoError(t, d.Degraded)
	}
	assert.Zero(t, open.Load())
}
