package goredis

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

var count = redisstore.NewScript(`return redis.call('INCR', KEYS[1])`)

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		client redis.UniversalClient
		want   string
	}{
		"nil":          {nil, "redisstore: the go-redis client is nil"},
		"a nil client": {(*redis.Client)(nil), "redisstore: the go-redis client is nil"},
		"the defaults": {redis.NewClient(&redis.Options{}), "redisstore: ContextTimeoutEnabled is false and ReadTimeout is 5s: the one must be true or the other at most 500ms, or calls to a Redis that hangs pile up"},
		"no ReadTimeout": {
			redis.NewClient(&redis.Options{ReadTimeout: -1}),
			"redisstore: ContextTimeoutEnabled is false and ReadTimeout is 0s: the one must be true or the other at most 500ms, or calls to a Redis that hangs pile up",
		},
		"a cluster": {redis.NewClusterClient(&redis.ClusterOptions{}), "redisstore: ContextTimeoutEnabled is false"},
		"a ring":    {redis.NewRing(&redis.RingOptions{}), "redisstore: a *redis.Ring is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.client)
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), c.want), "%v", err)
		})
	}
	for _, client := range []redis.UniversalClient{
		redis.NewClient(&redis.Options{ContextTimeoutEnabled: true}),
		redis.NewClient(&redis.Options{ReadTimeout: 100 * time.Millisecond}),
		redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true}),
	} {
		_, err := New(client)
		require.NoError(t, err)
	}
}

// Nothing is sent, and nobody connected to, before the first decision.
func TestNewSendsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	addr := l.Addr().String()
	for _, client := range []redis.UniversalClient{
		redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true}),
		redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, ContextTimeoutEnabled: true}),
	} {
		c, err := New(client)
		require.NoError(t, err)
		require.NoError(t, (&redisstore.Store{Client: c}).Check())
	}
	require.NoError(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = l.Accept()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// A script is sent once, however often the client was told to retry, and
// whatever goes wrong.
func TestSentOnce(t *testing.T) {
	server := redistest.Start(t)
	for i, f := range []redistest.Fault{redistest.HoldReplies, redistest.HalfReply, redistest.ResetReply} {
		proxy := redistest.NewProxy(t, server.Addr)
		raw := redis.NewClient(&redis.Options{
			Addr: proxy.Addr, MaxRetries: 10, MinRetryBackoff: -1, ReadTimeout: 50 * time.Millisecond, PoolSize: 100,
		})
		t.Cleanup(func() { _ = raw.Close() })
		c, err := New(raw)
		require.NoError(t, err)
		key := "count" + strconv.Itoa(i)
		_, err = c.Eval(t.Context(), count, []string{key}, nil)
		require.NoError(t, err)

		proxy.Set(f)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		_, err = c.Eval(ctx, count, []string{key}, nil)
		require.Error(t, err)
		assert.Less(t, time.Since(start), time.Second)
		proxy.Set(redistest.None)
		time.Sleep(200 * time.Millisecond)
		assert.Equal(t, "2", server.Get(key))
	}
}

// A connection that cannot be made is tried again, if the client was told so:
// nothing was sent.
func TestDialsAgain(t *testing.T) {
	server := redistest.Start(t)
	dials := 0
	raw := redis.NewClient(&redis.Options{
		Addr: server.Addr, ContextTimeoutEnabled: true, DialerRetries: 5, DialerRetryTimeout: time.Millisecond,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials < 3 {
				return nil, &net.OpError{Op: "dial", Err: net.UnknownNetworkError("none")}
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { _ = raw.Close() })
	c, err := New(raw)
	require.NoError(t, err)
	reply, err := c.Eval(t.Context(), count, []string{"count"}, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"1"}, reply)
}

// A client of another type is taken as it is.
func TestOtherClient(t *testing.T) {
	mini := redistest.Mini(t)
	raw := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	t.Cleanup(func() { _ = raw.Close() })
	c, err := New(wrapped{raw})
	require.NoError(t, err)
	reply, err := c.Eval(t.Context(), count, []string{"count"}, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"1"}, reply)
}

type wrapped struct{ redis.UniversalClient }
