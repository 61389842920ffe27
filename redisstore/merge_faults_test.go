package redisstore

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// However the client speaks, and while Redis keeps forgetting the scripts, each
// admitted decision is charged once.
func TestMergedWhileScriptsAreForgotten(t *testing.T) {
	for name, o := range map[string]rueidis.ClientOption{
		"plain": {}, "RESP2": {AlwaysRESP2: true}, "pipelining": {AlwaysPipelining: true}, "no cache": {DisableCache: true}, "four connections": {PipelineMultiplex: 2},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			o.InitAddress, o.ForceSingleClient, o.ConnWriteTimeout = []string{server.Addr}, true, 10*time.Second
			client, err := Rueidis(o)
			require.NoError(t, err)
			t.Cleanup(func() { closeClient(t, client) })
			s := &Store{Client: client, Timeout: 10 * time.Second, NearKeys: -1}
			log, bucket := made(limiter.SlidingLog("log", 1000, time.Hour)), made(limiter.TokenBucket("bucket", limiter.Per(1, 24*time.Hour), 10_000))
			var admitted atomic.Int64
			_, failed := together(64, 2000, func() error {
				n := admitted.Add(1)
				if n%20 == 0 {
					server.Do("SCRIPT", "FLUSH")
				}
				d, err := s.Take(t.Context(), bucket.Charge("k", 1), log.Charge(strconv.FormatInt(n%10, 10), 1))
				if err == nil {
					err = d.Degraded
				}
				return err
			})
			assert.Zero(t, failed)
			d, err := s.Take(t.Context(), bucket.Charge("k", 0))
			require.NoError(t, err)
			assert.EqualValues(t, 8000, d.Remaining)
		})
	}
}

// A primary that becomes a replica charges nothing more, nobody twice, and is the
// store's failure.
func TestMergedOverAFailover(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	bucket := made(limiter.TokenBucket("bucket", limiter.Per(1, 24*time.Hour), 10_000))
	var n, charged atomic.Int64
	together(64, 3000, func() error {
		switch n.Add(1) {
		case 1000:
			server.Do("REPLICAOF", "127.0.0.1", "1")
		case 2000:
			server.Do("REPLICAOF", "NO", "ONE")
		}
		d, err := s.Take(t.Context(), bucket.Charge("k", 1))
		if err == nil && d.Degraded == nil {
			charged.Add(1)
		}
		return err
	})
	redistest.Eventually(t, "the store is asked again", func() bool {
		d, err := s.Take(t.Context(), bucket.Charge("k", 0))
		return err == nil && d.Degraded == nil
	})
	d, err := s.Take(t.Context(), bucket.Charge("k", 0))
	require.NoError(t, err)
	require.NoError(t, d.Degraded)
	assert.EqualValues(t, 10_000-charged.Load(), d.Remaining)
	assert.Less(t, charged.Load(), int64(3000))
}

// The log of another limit whose units do not add up in doubles.
func TestMergedWithAnImpossibleLog(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	b := made(limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 1))
	old, err := planOf(made(limiter.SlidingLog("bucket", 1000, 24*time.Hour)))
	require.NoError(t, err)
	var decisions [][]limiter.Charge
	for i := range 5 {
		decisions = append(decisions, []limiter.Charge{b.Charge(strconv.Itoa(i), 1)})
	}
	at := time.Now().UnixMicro() - 1000
	value := pack(old.spec, at+2, 3, 1<<53) + pack("", at, 3, at+1, 1<<53)
	server.Do("SET", nameOf(t, s, decisions[2][0]), value)
	c := s.Client.(*rueidisClient)
	_, err = c.Eval(t.Context(), anyScript, nil, nil)
	require.NoError(t, err)
	batch := takes(t, s, decisions)
	c.evalAll(slices.Clone(batch))
	for i, w := range batch {
		require.NoError(t, w.err)
		assert.Equal(t, i != 2, w.reply[0][0] == '1', i)
	}
}

// A proxy before a cluster, or one node reached as a single one: keys of one script
// must be of one slot though the client library knows no cluster.
func TestMergedOverAProxyOfACluster(t *testing.T) {
	if !long {
		t.Parallel() // it mostly waits
	}
	server := redistest.Start(t, "--cluster-enabled", "yes")
	server.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	redistest.Eventually(t, "ok", func() bool { return strings.Contains(server.Do("CLUSTER", "INFO"), "cluster_state:ok") })
	s := storeAt(t, server.Addr) // ForceSingleClient
	s.Tag = func(c limiter.Charge) string { return c.Key }
	b := made(limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 1000))
	var n atomic.Int64
	_, failed := together(64, 1000, func() error {
		d, err := s.Take(t.Context(), b.Charge(strconv.FormatInt(n.Add(1)%50, 10), 1))
		if err != nil {
			return err
		}
		return d.Degraded
	})
	assert.Zero(t, failed)
	for i := range 50 {
		d, err := s.Take(t.Context(), b.Charge(strconv.Itoa(i), 0))
		require.NoError(t, err)
		assert.EqualValues(t, 980, d.Remaining, "each is charged once")
	}
}

// A user who may not touch one limit's keys makes decisions on the others.
func TestMergedNoPermission(t *testing.T) {
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "limits", "on", ">secret", "~polite:l{polite}:good:*", "%R~polite:l{polite}:ro:*", "+@all")
	client, err := Rueidis(rueidis.ClientOption{InitAddress: []string{server.Addr}, Username: "limits", Password: "secret", ForceSingleClient: true})
	require.NoError(t, err)
	t.Cleanup(func() { closeClient(t, client) })
	s := &Store{Client: client, Timeout: 10 * time.Second, NearKeys: -1}
	for _, bad := range []string{"bad", "ro"} {
		good, other := made(limiter.TokenBucket("good", limiter.Per(1, time.Hour), 1000)), made(limiter.TokenBucket(bad, limiter.Per(1, time.Hour), 1000))
		decisions := [][]limiter.Charge{{good.Charge("1", 1)}, {other.Charge("2", 1)}, {good.Charge("3", 1)}}
		batch := takes(t, s, decisions)
		_, err = client.(*rueidisClient).Eval(t.Context(), anyScript, nil, nil)
		require.NoError(t, err)
		client.(*rueidisClient).evalAll(slices.Clone(batch))
		require.NoError(t, batch[0].err)
		require.ErrorContains(t, batch[1].err, "NOPERM")
		require.NoError(t, batch[2].err)
		require.True(t, client.(*rueidisClient).crossing.holds())
		client.(*rueidisClient).crossing.until.Store(0)
	}
}

// A key that holds megabytes of somebody's is read whole once, and then no more.
func TestMergedHugeJunk(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	b := made(limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 10))
	decisions := [][]limiter.Charge{{b.Charge("0", 1)}, {b.Charge("1", 1)}}
	server.Do("SETRANGE", nameOf(t, s, decisions[0][0]), 20_000_000, "x")
	c := s.Client.(*rueidisClient)
	for i := range 3 {
		batch := takes(t, s, decisions)
		c.evalAll(slices.Clone(batch))
		require.NoError(t, batch[0].err)
		assert.Equal(t, []string{"j1"}, batch[0].reply)
		require.NoError(t, batch[1].err)
		assert.Equal(t, "1", batch[1].reply[0][:1])
		assert.Equal(t, 1, server.Calls()["mget"], i)
	}
}

// Where no answer came, such a key may be why.
func TestMergedWithoutAnAnswer(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	b := made(limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 10))
	c := s.Client.(*rueidisClient)
	decisions := [][]limiter.Charge{{b.Charge("0", 1)}, {b.Charge("1", 1)}}
	c.evalAll(takes(t, s, decisions))
	require.False(t, c.junk.holds())
	server.Kill()
	batch := takes(t, s, decisions)
	c.evalAll(batch)
	require.Error(t, batch[0].err)
	require.Error(t, batch[1].err)
	require.True(t, c.junk.holds())
}

// Without memory, what would write nothing is answered all the same.
func TestMergedRefusalsWithoutMemory(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	b := made(limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 1))
	log := made(limiter.SlidingLog("log", 10, time.Hour))
	c := s.Client.(*rueidisClient)
	decisions := [][]limiter.Charge{{b.Charge("spent", 1)}, {b.Charge("fresh", 0)}, {b.Charge("new", 1)}, {log.Charge("new", 1)}}
	c.evalAll(takes(t, s, decisions[:1]))
	server.Do("CONFIG", "SET", "maxmemory", "1")
	for _, p := range []parcel{takes(t, s, decisions[:1]), takes(t, s, decisions)} {
		c.evalAll(slices.Clone(p))
		require.NoError(t, p[0].err, "refused, whoever else asks")
		assert.Equal(t, "0", p[0].reply[0][:1])
		if len(p) > 1 {
			require.NoError(t, p[1].err)
			assert.Equal(t, "1", p[1].reply[0][:1])
			require.ErrorContains(t, p[2].err, "OOM")
			require.ErrorContains(t, p[3].err, "OOM")
		}
	}
}
