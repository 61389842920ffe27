package redisstore

import (
	"strconv"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// A Redis that has lost its scripts is sent the source once for a batch, and runs
// every call of it once.
func TestBatchSendsASourceOnce(t *testing.T) {
	server := redistest.Start(t)
	client, err := Rueidis(rueidis.ClientOption{InitAddress: []string{server.Addr}})
	require.NoError(t, err)
	t.Cleanup(func() { closeClient(t, client) })
	scripts := []*Script{
		NewScript(`return redis.call('INCR', KEYS[1])`),
		NewScript(`return redis.call('INCRBY', KEYS[1], 1)`),
	}
	_, err = client.Eval(t.Context(), scripts[0], []string{"warm"}, nil)
	require.NoError(t, err)
	server.Do("SCRIPT", "FLUSH")
	server.ResetCalls()
	batch := make([]*call, 40)
	for i := range batch {
		batch[i] = &call{script: scripts[i%2], keys: []string{strconv.Itoa(i % 10)}}
	}
	client.(*rueidisClient).evalAll(batch)
	for i, w := range batch {
		require.NoError(t, w.err, i)
		require.Equal(t, []string{strconv.Itoa(i/10 + 1)}, w.reply, i)
	}
	require.Equal(t, 2, server.Calls()["eval"])
}
