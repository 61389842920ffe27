package redisstore_test

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/goredis"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// clusterClients are the ways to reach a cluster.
var clusterClients = map[string]func(t testing.TB, addrs []string) redisstore.Client{
	"rueidis": func(t testing.TB, addrs []string) redisstore.Client {
		return clusterRueidis(t, rueidis.ClientOption{InitAddress: addrs})
	},
	"goredis": func(t testing.TB, addrs []string) redisstore.Client {
		r := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true, PoolSize: 100})
		t.Cleanup(func() { _ = r.Close() })
		c, err := goredis.New(r)
		require.NoError(t, err)
		return c
	},
}

func clusterRueidis(t testing.TB, o rueidis.ClientOption) redisstore.Client {
	c, err := redisstore.Rueidis(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.(io.Closer).Close() })
	return c
}

// patient is a client for a long Timeout.
func patient(t testing.TB, name string, addrs []string) redisstore.Client {
	if name == "rueidis" {
		return clusterRueidis(t, rueidis.ClientOption{InitAddress: addrs, ConnWriteTimeout: 10 * time.Second})
	}
	return clusterClients[name](t, addrs)
}

// While a slot moves, calls follow it or fail, and none is charged twice.
func TestClusterSlotMoves(t *testing.T) {
	beside(t)
	for name, client := range clusterClients {
		t.Run(name, func(t *testing.T) {
			beside(t)
			c := redistest.StartCluster(t)
			store := &redisstore.Store{Client: client(t, c.Addrs()), Timeout: time.Second}
			key := func(i int) string { return "{tag}:" + strconv.Itoa(i%20) }
			slot := c.Slot(key(0))
			to := c.Nodes[0]
			if c.Owner(slot) == to {
				to = c.Nodes[1]
			}
			var next, told atomic.Int64
			stop := make(chan struct{})
			var group sync.WaitGroup
			for range 16 {
				group.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Millisecond):
						}
						i := int(next.Add(1))
						if _, err := store.Run(context.Background(), chargeScript, []string{key(i)}, []string{strconv.Itoa(i)}); err == nil {
							told.Add(1)
						}
					}
				})
			}
			time.Sleep(200 * time.Millisecond)
			c.BeginMove(slot, to)
			for c.MoveKeys(slot, 1, to) > 0 {
				time.Sleep(5 * time.Millisecond)
			}
			c.EndMove(slot, to)
			moved := told.Load()
			time.Sleep(300 * time.Millisecond)
			close(stop)
			group.Wait()
			require.Greater(t, told.Load(), moved, "calls go on where the slot is now")

			sum := 0
			for i := range 20 {
				for _, count := range strings.Fields(strings.Trim(to.Do("HVALS", key(i)), "[]")) {
					require.Equal(t, "1", count)
					sum++
				}
			}
			assert.GreaterOrEqual(t, sum, int(told.Load()))
			t.Logf("%d calls, %d told that they ran, %d ran", next.Load(), told.Load(), sum)
		})
	}
}

// Keys of different slots are an error, and not a panic.
func TestClusterCrossSlot(t *testing.T) {
	beside(t)
	c := redistest.StartCluster(t)
	for name, client := range clusterClients {
		t.Run(name, func(t *testing.T) {
			store := &redisstore.Store{Client: client(t, c.Addrs()), Timeout: time.Second}
			for range 10 {
				_, err := store.Run(t.Context(), echo, []string{"a", "b"}, []string{"x"})
				require.Error(t, err)
			}
			_, err := store.Run(t.Context(), echo, []string{"{a}1", "{a}2"}, []string{"x"})
			require.NoError(t, err)
		})
	}
}

// One server of a cluster hangs: its part of the keys fails fast, and the others
// are served.
func TestClusterOneHangs(t *testing.T) {
	if redisstore.Raced {
		beside(t)
	}
	for name, client := range clusterClients {
		if !long && name != "rueidis" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
			store := &redisstore.Store{Client: client(t, c.Addrs())}
			keys := map[bool][]string{} // by whether their server hangs
			for i := range 300 {
				key := strconv.Itoa(i)
				hangs := c.Slot(key) < 16384/3
				keys[hangs] = append(keys[hangs], key)
			}
			ask := func(key string) error {
				_, err := store.Run(context.Background(), chargeScript, []string{key}, []string{"1"})
				return err
			}
			for _, key := range slices.Concat(keys[true], keys[false]) {
				_ = ask(key)
			}
			c.Nodes[0].Pause()
			t.Cleanup(c.Nodes[0].Resume)
			stop := make(chan struct{})
			var well, failed atomic.Int64
			var hung [32][]oneCall
			var group sync.WaitGroup
			start := time.Now()
			for i := range hung {
				group.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						case <-time.After(10 * time.Millisecond):
						}
						if n%2 == 0 {
							if ask(keys[false][n%len(keys[false])]) == nil {
								well.Add(1)
							} else {
								failed.Add(1)
							}
							continue
						}
						began := time.Now()
						err := ask(keys[true][(i*31+n)%len(keys[true])])
						if time.Since(start) > 700*time.Millisecond {
							hung[i] = append(hung[i], oneCall{took: time.Since(began), err: err})
						}
						assert.Error(t, err)
					}
				})
			}
			time.Sleep(1500 * time.Millisecond)
			close(stop)
			group.Wait()
			t.Logf("elsewhere %d well, %d failed", well.Load(), failed.Load())
			if !redisstore.Raced {
				assert.Less(t, failed.Load(), well.Load()/2, "elsewhere")
				assert.Less(t, quantile(took(slices.Concat(hung[:]...)), 0.5), time.Millisecond, "where it hangs, mostly nobody asks")
			}
		})
	}
}
