package redisstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// takes are calls for decisions by s.
func takes(t *testing.T, s *Store, decisions [][]limiter.Charge) parcel {
	t.Helper()
	p := make(parcel, len(decisions))
	for i, charges := range decisions {
		st, err := s.stack(charges)
		require.NoError(t, err)
		p[i] = &call{script: takeScript, keys: st.keys, args: s.args(st)}
	}
	return p
}

// Merged decisions are those that would be made one after the other, whatever the
// limits and whatever is under their keys, and leave the same behind.
func TestMergedDecisionsAreTheSame(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		c := s.Client.(*rueidisClient)
		_, err := c.Eval(t.Context(), anyScript, nil, nil)
		require.NoError(t, err)
		client := *c.ready.Load()
		run := func(p parcel) {
			c.end(p, client.Do(t.Context(), c.command(client, p, true)))
		}
		set := func(key, value string) {
			require.NoError(t, client.Do(t.Context(), client.B().Set().Key(key).Value(value).Build()).Error())
		}
		get := func(key string) string {
			value, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
			if rueidis.IsRedisNil(err) {
				return "none"
			}
			require.NoError(t, err)
			return "some " + value
		}
		now := clocked(s)
		for seed := range uint64(few(15)) {
			rng := rand.New(rand.NewPCG(seed, 1))
			*now = 1_790_000_000_000_000 + rng.Int64N(1e12)
			limits := []*limiter.Limit{made(limiter.TokenBucket("usual", limiter.Per(1000, time.Second), 20))}
			for range 6 {
				limits = append(limits, randomLimit(t, rng, strconv.Itoa(rng.IntN(4)))) // some share a name
			}
			for range 40 {
				decisions := make([][]limiter.Charge, 2+rng.IntN(maxMerged-1))
				for i := range decisions {
					for range 1 + rng.IntN(3) {
						l := limits[0]
						if rng.IntN(3) == 0 {
							l = limits[1+rng.IntN(6)]
						}
						if !slices.ContainsFunc(decisions[i], func(c limiter.Charge) bool { return c.Limit.Name() == l.Name() }) {
							decisions[i] = append(decisions[i], l.Charge(strconv.Itoa(rng.IntN(12)), rng.Int64N(3)))
						}
					}
				}
				of := func(prefix string) parcel {
					s.Prefix = prefix + strconv.FormatUint(seed, 10)
					return takes(t, s, decisions)
				}
				apart, together := of("a"), of("b")
				switch i := rng.IntN(len(decisions)); rng.IntN(8) {
				case 0:
					junk := []string{"", "junk", "1b" + strings.Repeat("x", 40), strings.Repeat("long", 9000)}[rng.IntN(4)]
					set(apart[i].keys[0], junk)
					set(together[i].keys[0], junk)
				case 1:
					*now -= rng.Int64N(2e9)
				case 2:
					c.junk.until.Store(0)
				}
				for _, w := range apart {
					run(parcel{w})
				}
				run(together)
				for i, w := range apart {
					require.Equal(t, w.err, together[i].err, "seed %d", seed)
					require.Equal(t, strings.Join(w.reply, ""), strings.Join(together[i].reply, ""), "seed %d: %v", seed, decisions[i])
					for j, key := range w.keys {
						require.Equal(t, get(key), get(together[i].keys[j]), "seed %d: %v", seed, decisions[i])
					}
				}
				*now += rng.Int64N(1 << (1 + rng.IntN(36)))
			}
		}
	})
}

// Decisions of one moment are few scripts: each is charged, and told its own answer.
func TestDecisionsOfOneMomentAreMerged(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	limits := []*limiter.Limit{
		made(limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 1000)),
		made(limiter.SlidingCounter("counter", 1000, time.Hour)),
	}
	const n = 2*maxMerged + 3
	decisions := make([][]limiter.Charge, n)
	for i := range decisions {
		decisions[i] = []limiter.Charge{limits[i%2].Charge("k", 1), limits[(i+1)%2].Charge("k"+strconv.Itoa(i%7), 1)}
	}
	batch := takes(t, s, decisions)
	ask := &call{script: anyScript}
	c := s.Client.(*rueidisClient)
	c.evalAll(append(batch, ask)) // Redis does not know the scripts yet
	assert.Equal(t, []string{"1"}, ask.reply)
	server.ResetCalls()
	second := takes(t, s, decisions)
	c.evalAll(slices.Clone(second))
	assert.Equal(t, 3, server.Calls()["evalsha"])
	for i, w := range append(batch, second...) {
		require.NoError(t, w.err)
		st, err := s.stack(decisions[i%n])
		require.NoError(t, err)
		a, _, err := st.parse(w.reply)
		require.NoError(t, err)
		require.True(t, a.charged)
	}
	d, err := s.Take(t.Context(), limits[0].Charge("k", 0))
	require.NoError(t, err)
	assert.EqualValues(t, 1000-n-1, d.Remaining, "every decision of an even number has charged one")
}

// What Redis answers to one decision is no other's.
func TestJunkAmongMergedDecisions(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		bucket := made(limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 10))
		s.Prefix = t.Name()
		var decisions [][]limiter.Charge
		for i := range 8 {
			decisions = append(decisions, []limiter.Charge{bucket.Charge(strconv.Itoa(i), 1)})
		}
		c := s.Client.(*rueidisClient)
		_, err := c.Eval(t.Context(), NewScript(`redis.call('SET', KEYS[1], 'junk'); return redis.call('RPUSH', KEYS[2], '1')`),
			[]string{nameOf(t, s, decisions[2][0]), nameOf(t, s, decisions[5][0])}, nil)
		require.NoError(t, err)
		require.False(t, c.junk.holds())
		for range 2 { // the second time it is known
			batch := takes(t, s, decisions)
			c.evalAll(slices.Clone(batch))
			for i, w := range batch {
				require.NoError(t, w.err)
				if i == 2 || i == 5 {
					assert.Equal(t, []string{"j1"}, w.reply)
				} else {
					assert.Equal(t, "1", w.reply[0][:1])
				}
			}
			require.True(t, c.junk.holds())
		}
	})
}

// A Redis that may not take more charges none of the merged decisions.
func TestMergedDecisionsWithoutMemory(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	bucket := made(limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 10))
	decisions := [][]limiter.Charge{{bucket.Charge("a", 1)}, {bucket.Charge("b", 1)}, {bucket.Charge("c", 1)}}
	c := s.Client.(*rueidisClient)
	c.evalAll(takes(t, s, decisions))
	server.Do("CONFIG", "SET", "maxmemory", "1")
	batch := takes(t, s, decisions)
	c.evalAll(slices.Clone(batch))
	for _, w := range batch {
		require.ErrorContains(t, w.err, "OOM")
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	for _, charges := range decisions {
		d, err := s.Take(t.Context(), charges[0].Limit.Charge(charges[0].Key, 0))
		require.NoError(t, err)
		assert.EqualValues(t, 9, d.Remaining)
	}
}

// Many callers of one key, merged or not, are never admitted more than it has.
func TestOneKeyMerged(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	stack := []*limiter.Limit{
		made(limiter.FixedWindow("window", 500, 24*time.Hour, limiter.ToFirst)),
		made(limiter.TokenBucket("bucket", limiter.Per(1, 24*time.Hour), 10_000)),
	}
	var mu sync.Mutex
	admitted := 0
	_, failed := together(64, 2000, func() error {
		d, err := s.Take(t.Context(), stack[0].Charge("k", 1), stack[1].Charge("k", 1))
		if err == nil && d.Degraded != nil {
			err = fmt.Errorf("degraded: %w", d.Degraded)
		}
		if err == nil && d.Allowed {
			mu.Lock()
			admitted++
			mu.Unlock()
		}
		return err
	})
	assert.Zero(t, failed)
	assert.Equal(t, 500, admitted)
	assert.Less(t, server.Calls()["evalsha"], 1500, "callers of one moment share a script")
	d, err := s.Take(t.Context(), stack[1].Charge("k", 0))
	require.NoError(t, err)
	assert.EqualValues(t, 9500, d.Remaining)
}

// Every call of a batch is in one parcel, and none has more than a script may.
func TestParcels(t *testing.T) {
	for seed := range uint64(times(300)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		batch := make([]*call, rng.IntN(maxBatch+1))
		most := 1 + rng.IntN(maxOneKeys+2)
		for i := range batch {
			n := 1 + rng.IntN(most)
			batch[i] = &call{script: takeScript, keys: make([]string, n), args: []string{""}}
			for range n {
				batch[i].args = append(batch[i].args, "1"+string("bfwcdls"[rng.IntN(7)]), "")
			}
			switch rng.IntN(20) {
			case 0:
				batch[i].script = refundScript
			case 1:
				batch[i].args = append(batch[i].args, "") // only asks
			}
		}
		was := slices.Clone(batch)
		merge := rng.IntN(4) > 0
		var got []*call
		for _, p := range parcels(batch, merge) {
			got = append(got, p...)
			if len(p) == 1 {
				continue
			}
			weight := 0
			for _, w := range p {
				require.True(t, w.merges() && merge)
				weight += w.weight()
			}
			require.True(t, len(p) <= maxMerged && weight <= maxWeight)
		}
		require.ElementsMatch(t, was, got)
	}
}

func TestRepeats(t *testing.T) {
	var keys []string
	for i := range maxWeight {
		keys = append(keys, strconv.Itoa(i))
		require.False(t, repeats(keys))
	}
	for i := range keys {
		again := slices.Clone(keys)
		again[len(keys)-1-i] = keys[i]
		require.Equal(t, len(keys)-1-i != i, repeats(again))
	}
}
