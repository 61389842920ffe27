package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// meterScript is about what a decision on one limit costs Redis.
var meterScript = NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local fresh = now
local state = redis.call('GET', KEYS[1])
if state then fresh = math.max(now, tonumber(state)) end
local after = fresh + ARGV[1]
if after - now > tonumber(ARGV[2]) then
	return '0 ' .. string.format('%.0f', fresh) .. ' ' .. string.format('%.0f', now)
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return '1 ' .. string.format('%.0f', after) .. ' ' .. string.format('%.0f', now)`)

const trivialScript = `return redis.call('INCRBY', KEYS[1], ARGV[1])`

// BenchmarkEval compares a script under its deadline with what go-redis does
// without one, in turns on one server, so that the machine's mood hits both.
func BenchmarkEval(b *testing.B) {
	server := redistest.Start(b)
	client, err := Rueidis(rueidis.ClientOption{InitAddress: []string{server.Addr}})
	require.NoError(b, err)
	b.Cleanup(func() { closeClient(b, client) })
	store := &Store{Client: client}

	raw := redis.NewClient(&redis.Options{Addr: server.Addr})
	b.Cleanup(func() { _ = raw.Close() })
	trivial := redis.NewScript(trivialScript)
	ctx := context.Background()
	require.NoError(b, trivial.Load(ctx, raw).Err())

	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = "polite:{" + strconv.Itoa(i) + "}:meter"
	}
	ways := []struct {
		name string
		run  func(key string) error
	}{
		{"goredis", func(key string) error {
			return raw.EvalSha(ctx, trivial.Hash(), []string{key + ":raw"}, 1).Err()
		}},
		{"eval", func(key string) error {
			_, err := store.eval(ctx, meterScript, []string{key}, []string{"1000", "10000"})
			return err
		}},
		{"plain", func(key string) error {
			_, err := client.Eval(ctx, meterScript, []string{key}, []string{"1000", "10000"})
			return err
		}},
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			spent, failed := make([]time.Duration, len(ways)), 0
			share := min(100*callers, max(b.N, callers))
			turns := 0
			for done := 0; done < b.N; done += share {
				for i, way := range ways {
					took, errs := together(callers, share, func() error { return way.run(keys[rand.IntN(len(keys))]) })
					spent[i] += took
					failed += errs
				}
				turns++
			}
			for i, way := range ways {
				b.ReportMetric(float64(turns*share)/spent[i].Seconds(), way.name+"/s")
			}
			b.ReportMetric(spent[0].Seconds()/spent[1].Seconds(), "ratio")
			b.ReportMetric(float64(failed), "failed")
			b.ReportMetric(0, "ns/op") // of all ways together: says nothing
		})
	}
}

// together runs n calls by that many callers, and returns how long it took and
// how many failed.
func together(callers, n int, run func() error) (time.Duration, int) {
	var left, failed atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	start := time.Now()
	for range callers {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if run() != nil {
					failed.Add(1)
				}
			}
		})
	}
	group.Wait()
	return time.Since(start), int(failed.Load())
}
