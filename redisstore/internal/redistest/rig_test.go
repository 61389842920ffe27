package redistest

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCluster(t *testing.T) {
	c := StartCluster(t)
	key := "{tag}:a"
	slot := c.Slot(key)
	from := c.Owner(slot)
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	from.Do("SET", key, "1")

	_, err := to.Try("GET", key)
	require.ErrorContains(t, err, "MOVED")
	c.BeginMove(slot, to)
	_, err = from.Try("GET", "{tag}:elsewhere")
	require.ErrorContains(t, err, "ASK")
	_, err = from.Try("MGET", key, "{tag}:elsewhere")
	require.ErrorContains(t, err, "TRYAGAIN")
	assert.Equal(t, 1, c.MoveKeys(slot, 10, to))
	c.EndMove(slot, to)
	assert.Equal(t, "1", to.Get(key))
	assert.Same(t, to, c.Owner(slot))
}

func TestReplica(t *testing.T) {
	primary := Start(t)
	primary.Do("SET", "a", "1")
	replica := StartReplica(t, primary)
	assert.Equal(t, "1", replica.Get("a"))
	_, err := replica.Try("SET", "a", "2")
	require.ErrorContains(t, err, "READONLY")
	replica.Promote()
	replica.Do("SET", "a", "2")
}

func TestProxy(t *testing.T) {
	s := Start(t)
	p := NewProxy(t, s.Addr)
	client := redis.NewClient(&redis.Options{
		Addr: p.Addr, MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 100, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = client.Close() })
	incr := func(key string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		return client.Incr(ctx, key).Err()
	}
	value := func(key string) string { return s.Get(key) }
	warm := func(key string) { require.NoError(t, incr(key)) }

	for _, c := range []struct {
		name  string
		fault Fault
		ran   string // how often, in the end, in all
		is    func(error) bool
	}{
		{"HoldReplies", HoldReplies, "2", timedOut},
		{"HoldRequests", HoldRequests, "1", timedOut},
		{"HalfReply", HalfReply, "2", timedOut},
		{"ResetReply", ResetReply, "2", func(err error) bool { return !timedOut(err) }},
		{"Refuse", Refuse, "1", func(err error) bool { return !timedOut(err) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			warm(c.name)
			p.Set(c.fault)
			err := incr(c.name)
			require.Error(t, err)
			assert.True(t, c.is(err), "%v", err)
			assert.Equal(t, c.ran, value(c.name))
			p.Set(None)
			require.NoError(t, incr(c.name))
		})
	}

	warm("delay")
	p.Delay(30 * time.Millisecond)
	start := time.Now()
	require.NoError(t, incr("delay"))
	assert.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
	assert.Positive(t, p.Conns())
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() ||
		strings.Contains(err.Error(), "timeout")
}
