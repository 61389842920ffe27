package redisstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

func dbl(f float64) string {
	return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)))
}

func randomDouble(rng *rand.Rand, now int64) float64 {
	switch rng.IntN(20) {
	case 0:
		return math.NaN()
	case 1:
		return math.Inf(1)
	case 2:
		return math.Inf(-1)
	case 3:
		return math.Copysign(0, -1)
	case 4:
		return -1
	case 5:
		return 5e-324
	case 6:
		return 0.5
	case 7:
		return 1 << 53
	case 8:
		return 1<<53 + 2
	case 9:
		return 1<<53 - 1
	case 10:
		return 4294967295
	case 11:
		return 1e300
	case 12, 13:
		return float64(now)
	case 14, 15:
		return float64(now + rng.Int64N(1<<(1+rng.IntN(45))))
	case 16:
		return float64(now - rng.Int64N(1<<(1+rng.IntN(35))))
	case 17:
		return math.Float64frombits(rng.Uint64())
	}
	return float64(rng.Int64N(1 << (1 + rng.IntN(53))))
}

func wholeDouble(rng *rand.Rand, now int64) float64 {
	for {
		f := randomDouble(rng, now)
		if f >= 0 && f <= 1<<53 && f == math.Trunc(f) {
			return f
		}
	}
}

// junkValue is a value of any shape, mostly nearly right.
func junkValue(rng *rand.Rand, specs []string, now int64) string {
	some := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	spec := specs[rng.IntN(len(specs))]
	if rng.IntN(3) == 0 {
		spec = "1" + string("bfwcdls"[rng.IntN(7)]) + dbl(wholeDouble(rng, now)) + dbl(wholeDouble(rng, now)) + dbl(wholeDouble(rng, now))
	}
	num := randomDouble
	if rng.IntN(3) > 0 {
		num = wholeDouble
	}
	switch rng.IntN(12) {
	case 0:
		return ""
	case 1:
		return some(42)
	case 2:
		return some(rng.IntN(200))
	case 3:
		return spec + some(16)
	case 4:
		return spec + some(rng.IntN(60))
	case 5:
		return strings.Repeat("1b", 12000)
	case 6, 7:
		return spec + dbl(num(rng, now)) + dbl(num(rng, now))
	case 8:
		return spec + dbl(num(rng, now)) + dbl(num(rng, now)) + dbl(num(rng, now))
	}
	// a log
	n := rng.IntN(8)
	if rng.IntN(10) == 0 {
		n = rng.IntN(1260)
	}
	at := make([]float64, n+1)
	for i := range at {
		at[i] = float64(now - rng.Int64N(1<<(1+rng.IntN(36))) + rng.Int64N(1<<(1+rng.IntN(30))))
	}
	if rng.IntN(8) > 0 {
		slices.Sort(at)
	}
	count := func() float64 {
		switch rng.IntN(6) {
		case 0:
			return num(rng, now)
		case 1:
			return float64(int64(1)<<53 - rng.Int64N(4))
		}
		return float64(rng.IntN(6))
	}
	var older strings.Builder
	total := 0.0
	for i := range n {
		c := count()
		total += c
		older.WriteString(dbl(at[i]) + dbl(c))
	}
	c := count()
	total += c
	if rng.IntN(4) == 0 || total > 1<<53 {
		total = num(rng, now)
	}
	if rng.IntN(2) == 0 {
		spec = "1" + string("ls"[rng.IntN(2)]) + spec[2:]
	}
	return spec + dbl(at[n]) + dbl(c) + dbl(total) + older.String()
}

// Whatever is under keys, merged decisions are those that would be made apart, and
// leave the same behind.
func TestMergedOverAnything(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	c := s.Client.(*rueidisClient)
	_, err := c.Eval(t.Context(), anyScript, nil, nil)
	require.NoError(t, err)
	client := *c.ready.Load()
	run := func(p parcel) { c.end(p, client.Do(t.Context(), c.command(client, p, true))) }
	now := clocked(s)
	do := func(args ...string) (string, error) {
		return client.Do(t.Context(), client.B().Arbitrary(args[0]).Args(args[1:]...).Build()).ToString()
	}
	get := func(key string) string {
		value, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
		if err != nil {
			if rueidis.IsRedisNil(err) {
				return "none"
			}
			return err.Error()
		}
		ttl, err := client.Do(t.Context(), client.B().Pttl().Key(key).Build()).ToInt64()
		require.NoError(t, err)
		life := "for ever"
		if ttl >= 0 {
			life = "some"
		}
		return life + " " + value
	}
	ttl := func(key string) int64 {
		n, err := client.Do(t.Context(), client.B().Pttl().Key(key).Build()).ToInt64()
		require.NoError(t, err)
		return n
	}
	names := []string{"a", "a:b{c}%#", "~", "}{", "{}", strings.Repeat("n", 40)}
	userKeys := []string{"", "k", "{x}", "}{", "a:b", "%", "\x00\x01\xfe", strings.Repeat("long", 40), strings.Repeat("long", 40) + "x", "#"}
	quickly := 0
	for seed := range uint64(few(15)) {
		rng := rand.New(rand.NewPCG(seed, 7))
		*now = 1_790_000_000_000_000 + rng.Int64N(1e12)
		limits := []*limiter.Limit{made(limiter.TokenBucket("usual", limiter.Per(1000, time.Second), 20))}
		for range 10 {
			limits = append(limits, randomLimit(t, rng, names[rng.IntN(len(names))]))
		}
		if rng.IntN(2) == 0 {
			limits[3].Global = true
		}
		var specs []string
		for _, l := range limits {
			p, err := planOf(l)
			require.NoError(t, err)
			for _, k := range userKeys {
				specs = append(specs, p.specFor(k))
			}
		}
		for round := range 25 {
			decisions := make([][]limiter.Charge, 2+rng.IntN(maxMerged-1))
			few := 1 + rng.IntN(8)
			keys := 0
			for i := range decisions {
				for range 1 + rng.IntN(few) {
					l := limits[0]
					if rng.IntN(3) > 0 {
						l = limits[1+rng.IntN(10)]
					}
					if slices.ContainsFunc(decisions[i], func(c limiter.Charge) bool {
						return c.Limit.Name() == l.Name() && c.Limit != l || c.Limit.Global != l.Global
					}) {
						continue
					}
					cost := rng.Int64N(3)
					switch rng.IntN(12) {
					case 0:
						cost = math.MaxInt64
					case 1:
						cost = l.Quota()
					case 2:
						cost = l.Quota() + 1
					case 3:
						cost = rng.Int64N(l.Quota()) + 1
					case 4:
						cost = 1 << 53
					}
					decisions[i] = append(decisions[i], l.Charge(userKeys[rng.IntN(len(userKeys))], cost))
				}
				if len(decisions[i]) == 0 {
					decisions[i] = append(decisions[i], limits[0].Charge("k", 1))
				}
				if keys += len(decisions[i]); keys > maxWeight {
					decisions = decisions[:i]
					break
				}
			}
			if len(decisions) < 2 {
				continue
			}
			of := func(prefix string) parcel {
				s.Prefix = prefix + strconv.FormatUint(seed, 10)
				return takes(t, s, decisions)
			}
			apart, together := of("a"), of("b")
			for range rng.IntN(6) {
				i := rng.IntN(len(decisions))
				j := rng.IntN(len(apart[i].keys))
				a, b := apart[i].keys[j], together[i].keys[j]
				var cmd []string
				switch rng.IntN(8) {
				case 0:
					cmd = []string{"PERSIST", ""}
				case 1:
					cmd = []string{"DEL", ""}
				case 2:
					cmd = [][]string{{"LPUSH", "", "1"}, {"HSET", "", "a", "1"}, {"XADD", "", "*", "a", "1"}, {"SADD", "", "x"}, {"ZADD", "", "1", "x"}}[rng.IntN(5)]
				default:
					cmd = []string{"SET", "", junkValue(rng, specs, *now)}
				}
				for _, key := range []string{a, b} {
					if cmd[0] != "DEL" && cmd[0] != "PERSIST" {
						do("DEL", key)
					}
					cmd[1] = key
					do(cmd...)
				}
			}
			switch rng.IntN(4) {
			case 0:
				*now -= rng.Int64N(1 << (1 + rng.IntN(36)))
			case 1:
				c.junk.until.Store(0)
			}
			for _, w := range apart {
				run(parcel{w})
			}
			run(together)
			for i, w := range apart {
				require.NoError(t, w.err)
				who := fmt.Sprintf("seed %d round %d decision %d of %d: %v", seed, round, i, len(apart), decisions[i])
				require.Equal(t, fmt.Sprint(w.err), fmt.Sprint(together[i].err), who)
				require.Equal(t, strings.Join(w.reply, ""), strings.Join(together[i].reply, ""), who)
				if len(together[i].reply) > 1 {
					quickly++
				}
				for j, key := range w.keys {
					require.Equal(t, get(key), get(together[i].keys[j]), who)
					if d := ttl(key) - ttl(together[i].keys[j]); d > 3000 || d < -3000 {
						t.Fatalf("%s: life differs by %d", who, d)
					}
				}
			}
			*now += rng.Int64N(1 << (1 + rng.IntN(36)))
		}
		do("FLUSHALL")
	}
	assert.Greater(t, quickly, 20)
}
