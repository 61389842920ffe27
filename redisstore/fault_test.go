package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/goredis"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// The deadline of a decision, and by how much its slowest may exceed it beyond
// what a bare timer does.
const (
	deadline = 50 * time.Millisecond
	slack    = 10 * time.Millisecond
)

// long says that the long tests run.
var long = redisstore.Long

// inTime skips a test that is held to deadlines of 50 ms, unless it is wanted:
// beside other packages' tests, or with the race detector, it says nothing.
func inTime(t testing.TB) {
	if !long || redisstore.Raced {
		t.Skip("is about milliseconds: set POLITE_LONG=1, without -race and with nothing beside it")
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // what runs beside others waits, and computes little
		panic(err)
	}
	os.Exit(m.Run())
}

// beside lets a test that mostly waits run beside others, where none is held to
// figures.
func beside(t *testing.T) {
	if !long {
		t.Parallel()
	}
}

// clients are the ways to reach a server.
var clients = map[string]func(t testing.TB, addr string) redisstore.Client{
	"rueidis": func(t testing.TB, addr string) redisstore.Client {
		c, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{addr}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.(io.Closer).Close() })
		return c
	},
	"goredis": func(t testing.TB, addr string) redisstore.Client {
		r := redis.NewClient(&redis.Options{ // see goredis.New for why
			Addr: addr, ContextTimeoutEnabled: true, PoolSize: 200, DialTimeout: 500 * time.Millisecond, ReadTimeout: 500 * time.Millisecond,
		})
		t.Cleanup(func() { _ = r.Close() })
		c, err := goredis.New(r)
		require.NoError(t, err)
		return c
	},
}

// chargeScript counts how often it ran for each call.
var chargeScript = redisstore.NewScript(`return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)`)

type rig struct {
	server *redistest.Server
	proxy  *redistest.Proxy
	stop   func() // ends what begin started
}

type fault struct {
	name       string
	begin, end func(r *rig)
	quick      bool // also without POLITE_LONG
	empties    bool // what was charged is lost
	harmless   bool // no call fails
}

func proxied(f redistest.Fault) (begin, end func(*rig)) {
	return func(r *rig) { r.proxy.Set(f) }, func(r *rig) { r.proxy.Set(redistest.None) }
}

func faults() []fault {
	all := []fault{
		{
			name: "killed", quick: true, empties: true,
			begin: func(r *rig) { r.server.Kill() }, end: func(r *rig) { r.server.Restart() },
		},
		{
			name: "stopped", quick: true,
			begin: func(r *rig) { r.server.Pause() }, end: func(r *rig) { r.server.Resume() },
		},
		{
			name:  "slow",
			begin: func(r *rig) { r.proxy.Delay(2 * deadline) }, end: func(r *rig) { r.proxy.Delay(0) },
		},
		{
			name: "scripts forgotten", quick: true, harmless: true,
			begin: func(r *rig) { r.stop = every(20*time.Millisecond, func() { r.server.Do("SCRIPT", "FLUSH") }) },
			end:   func(r *rig) { r.stop() },
		},
		{
			name:  "CLIENT PAUSE",
			begin: func(r *rig) { r.server.Do("CLIENT", "PAUSE", 60_000, "WRITE") }, end: func(r *rig) { r.server.Do("CLIENT", "UNPAUSE") },
		},
		{
			name:  "out of memory",
			begin: func(r *rig) { r.server.Do("CONFIG", "SET", "maxmemory", 1) }, end: func(r *rig) { r.server.Do("CONFIG", "SET", "maxmemory", 0) },
		},
		{
			name:  "became a replica",
			begin: func(r *rig) { r.server.Do("REPLICAOF", "127.0.0.1", 1) }, end: func(r *rig) { r.server.Promote() },
		},
	}
	for name, f := range map[string]redistest.Fault{
		"hangs after reading": redistest.HoldReplies, "hangs before reading": redistest.HoldRequests,
		"hangs within a reply": redistest.HalfReply, "resets within a reply": redistest.ResetReply, "refuses": redistest.Refuse,
	} {
		begin, end := proxied(f)
		all = append(all, fault{name: name, begin: begin, end: end, quick: f == redistest.ResetReply})
	}
	return all
}

func every(d time.Duration, do func()) (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(d):
				do()
			}
		}
	})
	return func() { close(done); group.Wait() }
}

// Whatever happens to Redis, 64 callers are answered in time, nothing is charged
// twice, and all is well within a second after.
func TestFaults(t *testing.T) {
	for name, client := range clients {
		for _, f := range faults() {
			if !long && !f.quick {
				continue
			}
			t.Run(name+"/"+f.name, func(t *testing.T) {
				inTime(t)
				for try := 1; ; try++ {
					server := redistest.Start(t)
					proxy := redistest.NewProxy(t, server.Addr)
					store := &redisstore.Store{Client: client(t, proxy.Addr)}
					if endure(t, store, f, &rig{server: server, proxy: proxy}, try) {
						break
					}
				}
			})
		}
	}
}

// endure reports whether the machine was idle enough to tell how late the callers
// were. The third try has to tell.
func endure(t *testing.T, store *redisstore.Store, f fault, r *rig, try int) (told bool) {
	l := startLoad(store)
	time.Sleep(300 * time.Millisecond)
	began := time.Now()
	f.begin(r)
	time.Sleep(700 * time.Millisecond)
	f.end(r)
	ended := time.Now()
	time.Sleep(1500 * time.Millisecond)
	calls, bare := l.end()

	slowest, bareSlowest := quantile(took(calls), 0.999), quantile(bare, 0.999)
	t.Logf("%d calls, p99.9 %v, of a bare timer %v", len(calls), slowest, bareSlowest)
	// The slowest of each are a handful of calls. Where bare timers are late by half
	// of the deadline, it is chance which of them the machine has kept waiting.
	busy := bareSlowest >= deadline*3/2
	if told = slowest <= bareSlowest+slack || !busy || try == 3; told {
		assert.LessOrEqual(t, slowest, bareSlowest+slack)
	}

	back := time.Duration(-1)
	var well, failed int // when nothing is wrong; a busy machine may be late
	var open []time.Duration
	for _, c := range calls {
		switch since := c.start.Sub(ended); {
		case f.harmless, c.start.Add(c.took).Before(began), since > time.Second:
			well++
			if c.err != nil {
				failed++
				assert.True(t, isOpen(c.err) || errors.Is(c.err, redisstore.ErrTimeout), "%v", c.err)
			}
		case since > 0 && c.err == nil && (back < 0 || since+c.took < back):
			back = since + c.took
		case since < 0 && isOpen(c.err):
			open = append(open, c.took)
		}
	}
	if !busy { // else nothing can be told
		assert.LessOrEqual(t, failed, well/2, "failed, of %d calls before the fault and from a second after it", well)
	}
	if !f.harmless {
		t.Logf("back after %v", back)
		assert.True(t, 0 <= back && back <= time.Second, "back after %v", back)
		require.NotEmpty(t, open)
		if median := quantile(open, 0.5); !redisstore.Raced {
			assert.LessOrEqual(t, median, 5*time.Microsecond, "of %d that did not ask Redis", len(open))
		}
	}
	chargedOnce(t, r.server, calls, f.empties)
	return told
}

func isOpen(err error) bool {
	var open *breaker.OpenError
	return errors.As(err, &open)
}

// chargedOnce looks what Redis counted: nobody twice, and all who were told so.
func chargedOnce(t *testing.T, s *redistest.Server, calls []oneCall, emptied bool) {
	t.Helper()
	counts := map[string]bool{}
	words := strings.Fields(strings.Trim(s.Do("EVAL", "return redis.call('HGETALL', KEYS[1])", 1, "charges"), "[]"))
	for pair := range slices.Chunk(words, 2) {
		counts[pair[0]] = true
		if pair[1] != "1" {
			t.Errorf("call %s was charged %s times", pair[0], pair[1])
		}
	}
	require.NotEmpty(t, counts)
	missing := 0
	for _, c := range calls {
		if c.err == nil && !counts[c.id] {
			missing++
		}
		if isOpen(c.err) && counts[c.id] {
			t.Errorf("call %s ran, and was told that it did not", c.id)
		}
	}
	if !emptied {
		assert.Zero(t, missing, "calls that were told they ran")
	}
}

type oneCall struct {
	id    string
	start time.Time
	took  time.Duration
	err   error
}

// A load is 64 callers who charge every few milliseconds, and 64 bare timers.
type load struct {
	stop  chan struct{}
	group sync.WaitGroup
	calls [64][]oneCall
	bare  [64][]time.Duration
}

func startLoad(store *redisstore.Store) *load {
	l := &load{stop: make(chan struct{})}
	for i := range l.calls {
		l.group.Go(func() {
			for n := 0; l.rest(25 * time.Millisecond); n++ {
				id := strconv.Itoa(i) + ":" + strconv.Itoa(n)
				start := time.Now()
				_, err := store.Run(context.Background(), chargeScript, []string{"charges"}, []string{id})
				l.calls[i] = append(l.calls[i], oneCall{id, start, time.Since(start), err})
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

// rest sleeps, and reports whether the load goes on.
func (l *load) rest(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.stop:
		return false
	}
}

func (l *load) end() (calls []oneCall, bare []time.Duration) {
	close(l.stop)
	l.group.Wait()
	return slices.Concat(l.calls[:]...), slices.Concat(l.bare[:]...)
}

func took(calls []oneCall) []time.Duration {
	all := make([]time.Duration, len(calls))
	for i, c := range calls {
		all[i] = c.took
	}
	return all
}

// quantile sorts what it is given.
func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}
