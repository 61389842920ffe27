package redisstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// takes are 64 callers of Take. Each charge is to a key of its own, and most go
// to a shared one besides.
type takes struct {
	*load
	store     *redisstore.Store
	one, many *limiter.Limit
}

func startTakes(t testing.TB, s *redisstore.Store) *takes {
	inTime(t)
	l := &takes{
		load: &load{stop: make(chan struct{})}, store: s,
		one: ofWindow(t, "one", 10), many: ofWindow(t, "many", 1<<40),
	}
	for i := range l.calls {
		l.group.Go(func() {
			for n := 0; l.rest(25 * time.Millisecond); n++ {
				id := strconv.Itoa(i) + "-" + strconv.Itoa(n)
				charges := []limiter.Charge{l.one.Charge(id, 1), l.many.Charge("", 1)}
				start := time.Now()
				d, err := s.Take(context.Background(), charges[:1+i%4&1]...)
				took := time.Since(start)
				if err == nil {
					err = d.Degraded
				}
				if !d.Allowed {
					err = errors.New("refused, although OnFailure is Open")
				}
				l.calls[i] = append(l.calls[i], oneCall{id, start, took, err})
			}
		})
		l.group.Go(func() {
			for start := time.Now(); l.rest(deadline); start = time.Now() {
				l.bare[i] = append(l.bare[i], time.Since(start))
			}
		})
	}
	return l
}

// endured says how well the callers were served: fault began and ended.
func (l *takes) endured(t *testing.T, f *fault, began, ended time.Time) []oneCall {
	t.Helper()
	calls, bare := l.end()
	slowest, bareSlowest := quantile(took(calls), 0.999), quantile(bare, 0.999)
	back := time.Duration(-1)
	before, failedBefore := 0, 0
	var open []time.Duration
	for _, c := range calls {
		switch since := c.start.Sub(ended); {
		case c.start.Add(c.took).Before(began):
			before++
			if c.err != nil {
				failedBefore++
			}
		case since > 0 && c.err == nil && (back < 0 || since+c.took < back):
			back = since + c.took
		case since < 0 && isOpen(c.err):
			open = append(open, c.took)
		}
	}
	t.Logf("%d calls, p99.9 %v, of a bare timer %v; back after %v", len(calls), slowest, bareSlowest, back)
	assert.Less(t, failedBefore, before, "all failed before it began")
	assert.True(t, 0 <= back && back <= time.Second, "back after %v", back)
	if redisstore.Raced {
		return calls
	}
	assert.LessOrEqual(t, slowest, max(bareSlowest, deadline)+slack)
	if !f.harmless && len(open) > 0 {
		assert.LessOrEqual(t, quantile(open, 0.5), 5*time.Microsecond, "of %d that did not ask Redis", len(open))
	}
	return calls
}

// chargedOnce looks what Redis holds: nobody was charged twice, who was told so
// was charged, who was told not was not, and all was charged or none.
func (l *takes) chargedOnce(t *testing.T, s *redistest.Server, calls []oneCall, lossy bool) {
	t.Helper()
	const all = `local all = {}
for _, k in ipairs(redis.call('KEYS', '*')) do
  local value = redis.call('GET', k)
  all[#all + 1] = k .. '=' .. struct.unpack('<d', value, #value - 7) -- the units of a window
end
return all`
	units := map[string]int{}
	for _, pair := range strings.Fields(strings.Trim(s.Do("EVAL", all, 0), "[]")) {
		key, value, _ := strings.Cut(pair, "=")
		n, err := strconv.Atoi(value)
		require.NoError(t, err, pair)
		units[key] = n
	}
	shared, missing, charged := 0, 0, 0
	for _, c := range calls {
		n := units[l.store.RedisKey(l.one.Charge(c.id, 1))]
		caller, _, _ := strings.Cut(c.id, "-")
		if i, _ := strconv.Atoi(caller); i%4&1 == 1 {
			shared += n
		}
		var answered *redisstore.ReplyError
		switch {
		case n > 1:
			t.Errorf("call %s was charged %d times", c.id, n)
		case n == 0 && c.err == nil:
			missing++
		case n == 1 && (isOpen(c.err) || errors.As(c.err, &answered)):
			t.Errorf("call %s was charged, and told that it was not: %v", c.id, c.err)
		}
		charged += n
	}
	require.Positive(t, charged)
	assert.Equal(t, shared, units[l.store.RedisKey(l.many.Charge("", 1))], "all or none")
	if !lossy {
		assert.Zero(t, missing, "charges that Redis does not have")
	}
}

// Whatever happens to Redis, decisions come in time, none is charged twice, and
// all is well within a second after.
func TestTakeThroughFaults(t *testing.T) {
	for name, client := range clients {
		for _, f := range faults() {
			if !long && (!f.quick || name != "rueidis") {
				continue
			}
			t.Run(name+"/"+f.name, func(t *testing.T) {
				r := &rig{server: redistest.Start(t)}
				r.proxy = redistest.NewProxy(t, r.server.Addr)
				l := startTakes(t, &redisstore.Store{Client: client(t, r.proxy.Addr)})
				time.Sleep(300 * time.Millisecond)
				began := time.Now()
				f.begin(r)
				time.Sleep(700 * time.Millisecond)
				f.end(r)
				ended := time.Now()
				time.Sleep(1300 * time.Millisecond)
				calls := l.endured(t, &f, began, ended)
				l.chargedOnce(t, r.server, calls, f.empties)
			})
		}
	}
}

// switching is a Client that goes to another server from one moment to the next.
type switching struct {
	to atomic.Pointer[redisstore.Client]
}

func (s *switching) Eval(ctx context.Context, script *redisstore.Script, keys, args []string) ([]string, error) {
	return (*s.to.Load()).Eval(ctx, script, keys, args)
}

// The primary dies, and a replica whose clock is behind takes over. What came
// last may be lost with the primary, but nothing else is, and nobody is refused
// for longer than a full refill.
func TestTakeThroughFailover(t *testing.T) {
	const behind = 3600 * 1e6 // microseconds
	primary := redistest.Start(t)
	replica := redistest.StartReplica(t, primary)
	primary.Do("SET", "passed on", "1") // for up to a second after it is in step nothing is
	redistest.Eventually(t, "writes reach the replica", func() bool { return replica.Get("passed on") == "1" })
	primary.Do("DEL", "passed on")
	first, second := clients["rueidis"](t, primary.Addr), clients["rueidis"](t, replica.Addr)
	var client switching
	client.to.Store(&first)
	var shift atomic.Int64
	s := &redisstore.Store{Client: &client, NearKeys: -1}
	s.SetClock(func() int64 { return time.Now().UnixMicro() - shift.Load() })

	bucket, err := limiter.TokenBucket("bucket", limiter.Per(10, time.Second), 20)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		d, err := s.Take(t.Context(), bucket.Charge("drained", 0))
		return err == nil && d.Degraded == nil
	}, 5*time.Second, time.Millisecond)
	l := startTakes(t, s)
	time.Sleep(300 * time.Millisecond)
	d, err := s.Take(t.Context(), bucket.Charge("drained", 20))
	require.NoError(t, err)
	require.True(t, d.Allowed)
	time.Sleep(50 * time.Millisecond) // it reaches the replica

	began := time.Now()
	primary.Kill()
	time.Sleep(500 * time.Millisecond)
	replica.Promote()
	shift.Store(behind)
	client.to.Store(&second)
	ended := time.Now()
	time.Sleep(1300 * time.Millisecond)
	calls := l.endured(t, &fault{}, began, ended)
	l.chargedOnce(t, replica, calls, true)
	lost := 0
	for _, c := range calls {
		if c.err == nil && c.start.Before(began.Add(-50*time.Millisecond)) && replica.Get(s.RedisKey(l.one.Charge(c.id, 1))) == "" {
			lost++
		}
	}
	if !redisstore.Raced {
		assert.Zero(t, lost, "older than what was under way")
	}

	d, err = s.Take(t.Context(), bucket.Charge("drained", 20))
	require.NoError(t, err)
	require.NoError(t, d.Degraded)
	require.False(t, d.Allowed, "the clock has gone back, which refills nothing")
	require.LessOrEqual(t, d.RetryAfter, 2*time.Second, "a full refill")
	time.Sleep(d.RetryAfter)
	d, err = s.Take(t.Context(), bucket.Charge("drained", 20))
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

// doubles are numbers as values hold them.
func doubles(numbers ...float64) string {
	var b []byte
	for _, f := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return string(b)
}

// Values that no Store wrote are the trouble of their keys alone.
func TestTakeThroughJunk(t *testing.T) {
	server := redistest.Start(t)
	s := &redisstore.Store{Client: clients["rueidis"](t, server.Addr)}
	l := startTakes(t, s)
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	guarded := ofWindow(t, "guarded", 5)
	guarded.OnFailure = limiter.Closed
	name := func(key string) string { return s.RedisKey(guarded.Charge(key, 1)) }
	values := map[string][]any{
		"list":    {"RPUSH", name("list"), "1"},
		"hash":    {"HSET", name("hash"), "a", "1"},
		"set":     {"SADD", name("set"), "1"},
		"stream":  {"XADD", name("stream"), "*", "a", "1"},
		"empty":   {"SET", name("empty"), ""},
		"text":    {"SET", name("text"), "hello"},
		"number":  {"SET", name("number"), "17"},
		"newer":   {"SET", name("newer"), "9f" + doubles(3.6e9, 0, 5, 1, 1)},
		"cut":     {"SET", name("cut"), "1f" + doubles(3.6e9, 0, 5)},
		"inf":     {"SET", name("inf"), "1f" + doubles(3.6e9, 0, 5, math.Inf(1), 1)},
		"nan":     {"SET", name("nan"), "1f" + doubles(3.6e9, 0, 5, math.NaN(), math.NaN())},
		"bytes":   {"SET", name("bytes"), "\x00\xff;\n%s"},
		"endless": {"SET", name("endless"), strings.Repeat("1", 100_000)},
	}
	for _, command := range values {
		server.Do(command...)
	}
	var poisoned sync.WaitGroup
	for key := range values {
		poisoned.Go(func() {
			for range 20 {
				d, err := s.Take(context.Background(), guarded.Charge(key, 1))
				if !assert.NoError(t, err) {
					return
				}
				if errors.Is(d.Degraded, redisstore.ErrTimeout) || isOpen(d.Degraded) {
					continue // a busy machine
				}
				var junk *redisstore.JunkError
				if assert.ErrorAs(t, d.Degraded, &junk, key) {
					assert.Equal(t, name(key), junk.Key)
				}
				assert.False(t, d.Allowed, "Closed")
				assert.False(t, d.Never)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	poisoned.Wait()
	for key, command := range values {
		assert.NotEqual(t, "none", server.Do("TYPE", command[1]), "%s is not replaced", key)
		server.Do("DEL", command[1])
	}
	ended := time.Now()
	for key := range values {
		d, err := s.Take(t.Context(), guarded.Charge(key, 1))
		require.NoError(t, err)
		require.NoError(t, d.Degraded, "it is well at once")
		assert.True(t, d.Allowed)
	}
	time.Sleep(300 * time.Millisecond)
	calls := l.endured(t, &fault{harmless: true}, began, ended)
	for key := range values {
		server.Do("DEL", name(key))
	}
	l.chargedOnce(t, server, calls, false)
	failed := 0
	for _, c := range calls {
		if c.err != nil {
			failed++
		}
	}
	assert.LessOrEqual(t, failed, len(calls)/20, "others are not touched; a busy machine may be late")
}

// An outside is a Client for a synctest bubble, where a client library would wait
// for a time that stands still. Its calls run in goroutines outside.
type outside struct{ idle chan *worker }

type worker struct {
	start, done chan struct{}
	script      *redisstore.Script
	keys, args  []string
	reply       []string
	err         error
}

func newOutside(t testing.TB, client redisstore.Client) *outside {
	o := &outside{idle: make(chan *worker, 64)}
	for range cap(o.idle) {
		w := &worker{start: make(chan struct{}), done: make(chan struct{})}
		go func() {
			for range w.start {
				w.reply, w.err = client.Eval(context.Background(), w.script, w.keys, w.args)
				w.done <- struct{}{}
			}
		}()
		t.Cleanup(func() { close(w.start) })
		o.idle <- w
	}
	return o
}

func (o *outside) Eval(_ context.Context, script *redisstore.Script, keys, args []string) ([]string, error) {
	w := <-o.idle
	w.script, w.keys, w.args = script, keys, args
	w.start <- struct{}{}
	<-w.done
	reply, err := w.reply, w.err
	o.idle <- w
	return reply, err
}

// One process's clock is 20 s ahead of everybody's, and 64 of its callers share
// limits with 64 of a process whose clock is right.
func TestTakeWithAClockAhead(t *testing.T) {
	const ahead = 20 * time.Second
	server := redistest.Start(t)
	month, err := limiter.Quota("month", 100, limiter.Month, nil)
	require.NoError(t, err)
	limits := []*limiter.Limit{ofWindow(t, "window", 100), month}
	for _, made := range []func() (*limiter.Limit, error){
		func() (*limiter.Limit, error) { return limiter.SlidingLog("log", 100, time.Hour) },
		func() (*limiter.Limit, error) {
			return limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 100)
		},
		func() (*limiter.Limit, error) {
			return limiter.FixedWindow("clock", 100, 24*time.Hour, limiter.ToClock)
		},
	} {
		l, err := made()
		require.NoError(t, err)
		limits = append(limits, l)
	}
	admitted := make([]atomic.Int64, len(limits))
	var longest atomic.Int64
	process := func(t *testing.T, client redisstore.Client) {
		s := &redisstore.Store{Client: client, Timeout: 10 * time.Second}
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() {
				for n := range 5 * len(limits) {
					i := (n + rand.IntN(2)) % len(limits)
					d, err := s.Take(context.Background(), limits[i].Charge("k", 1))
					if !assert.NoError(t, err) || !assert.NoError(t, d.Degraded) {
						return
					}
					if d.Allowed {
						admitted[i].Add(1)
					} else if limits[i].Name() == "window" {
						longest.Store(max(longest.Load(), int64(d.RetryAfter)))
					}
				}
			})
		}
		group.Wait()
	}
	client := clients["rueidis"](t, server.Addr)
	away := newOutside(t, client)
	var both sync.WaitGroup
	both.Go(func() { process(t, client) })
	wall := time.Now().Add(ahead)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(wall)) // at once, in here
		process(t, away)
	})
	both.Wait()
	for i, l := range limits {
		assert.EqualValues(t, 100, admitted[i].Load(), l.Name())
	}
	assert.LessOrEqual(t, time.Duration(longest.Load()), time.Hour)
}
