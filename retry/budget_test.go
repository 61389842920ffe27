package retry

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const host = "https://api.example.com:443"

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// fleet sends calls against a provider that fails some, each with up to four
// tries, and counts what comes of it.
type fleet struct {
	budget                    *Budget
	random                    *rand.Rand
	calls, attempts, answered int
}

func (f *fleet) call(now time.Time, failing float64) {
	f.calls++
	f.budget.Called(host, now)
	for n := 1; ; n++ {
		f.attempts++
		ok := f.random.Float64() >= failing
		if ok {
			f.budget.Succeeded(host, now)
			f.answered++
			return
		}
		if n == 4 || !f.budget.Take(host, now) {
			return
		}
	}
}

// run sends calls at a rate for a time and forgets what was counted before.
func (f *fleet) run(from time.Time, d time.Duration, perSecond int, failing float64) (until time.Time) {
	f.calls, f.attempts, f.answered = 0, 0, 0
	for i := range int(d.Seconds() * float64(perSecond)) {
		f.call(from.Add(time.Duration(i)*time.Second/time.Duration(perSecond)), failing)
	}
	return from.Add(d)
}

func (f *fleet) load() float64    { return float64(f.attempts) / float64(f.calls) }
func (f *fleet) success() float64 { return float64(f.answered) / float64(f.calls) }
func (f *fleet) retries() int     { return f.attempts - f.calls }

func newFleet(seed uint64) *fleet {
	return &fleet{budget: new(Budget), random: rand.New(rand.NewPCG(seed, 0))}
}

func TestBudgetUnderFailure(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			f := newFleet(seed)
			now := f.run(noon, 30*time.Second, 1000, 0.1)
			assert.GreaterOrEqual(t, f.success(), 0.98, "at 10 % failures")
			assert.LessOrEqual(t, f.load(), 1.11)

			now = f.run(now, 20*time.Second, 1000, 0.5)
			assert.LessOrEqual(t, f.load(), 1.1, "at 50 % failures")

			now = f.run(now, 2*time.Second, 1000, 0)
			now = f.run(now, 10*time.Second, 1000, 1)
			assert.LessOrEqual(t, f.retries(), 100, "in the first 10 s of an outage")
			assert.Greater(t, f.retries(), 80, "what a busy client may spend at once")
			now = f.run(now, time.Minute, 1000, 1)
			assert.Equal(t, 6, f.retries(), "in a minute of an outage, one in 10 s")

			now = f.run(now, time.Second, 1000, 0)
			f.run(now, time.Second, 1000, 0.05)
			assert.GreaterOrEqual(t, f.success(), 0.98, "a second after it")
		})
	}
}

// A bucket that had kept what a day earned would have 8.6 million retries left.
func TestBudgetADayDoesNotPayForAnHour(t *testing.T) {
	f := newFleet(1)
	now := f.run(noon, 24*time.Hour, 4, 0)
	f.run(now, time.Hour, 4, 1)
	assert.LessOrEqual(t, f.retries(), 10+360)
	assert.Less(t, f.load(), 1.1)
}

func TestBudgetOfAnIdleClient(t *testing.T) {
	var b Budget
	at := noon
	for range 100 {
		at = at.Add(time.Minute)
		b.Called(host, at)
		assert.True(t, b.Take(host, at), "one retry a minute")
	}
	for range 9 {
		assert.True(t, b.Take(host, at), "and ten at once")
	}
	assert.False(t, b.Take(host, at))
	assert.False(t, b.Take(host, at.Add(10*time.Second-time.Microsecond)))
	assert.True(t, b.Take(host, at.Add(10*time.Second)))
}

func TestBudgetEarnsATenth(t *testing.T) {
	var b Budget
	for range 10 {
		require.True(t, b.Take(host, noon))
	}
	for i := range 10 {
		assert.False(t, b.Take(host, noon), "after %d successes", i)
		b.Succeeded(host, noon)
	}
	for range 10 {
		b.Succeeded(host, noon)
	}
	assert.InDelta(t, 2, b.Level(host, noon), 1e-9)
	assert.True(t, b.Take(host, noon))
	assert.True(t, b.Take(host, noon))
	assert.False(t, b.Take(host, noon))
}

// In any run of calls, the tokens stay within what the documentation says.
func TestBudgetStaysWithinItsBound(t *testing.T) {
	holds := func(seed uint64, steps uint16) bool {
		random := rand.New(rand.NewPCG(seed, 0))
		var b Budget
		now := noon
		var called []time.Time
		credit := 10.0 // what may have been earned since the first step
		for range steps % 1500 {
			if random.IntN(8) > 0 {
				d := time.Duration(random.Int64N(int64(time.Second) >> random.IntN(14)))
				now = now.Add(d)
				credit += d.Seconds() / 10
			}
			switch random.IntN(8) {
			case 0:
				if b.Take(host, now) {
					credit--
				}
			case 1:
				b.Succeeded(host, now)
				credit += 0.1
			default:
				b.Called(host, now)
				called = append(called, now)
			}
			last := 0
			for i := len(called) - 1; i >= 0 && now.Sub(called[i]) < time.Second; i-- {
				last++
			}
			level := b.Level(host, now)
			if level < 0 || level > max(10, 0.1*float64(last))+1e-9 || level > credit+1e-6 {
				t.Logf("level %v, calls of the last second %d, credit %v", level, last, credit)
				return false
			}
		}
		return true
	}
	assert.NoError(t, quick.Check(holds, &quick.Config{MaxCount: 60}))
}

// envoy-mobile#811: when everything in flight fails at once, the calls that
// become retries still count as the calls that they are.
func TestBudgetBaseDoesNotShrinkWithFailures(t *testing.T) {
	f := newFleet(1)
	now := f.run(noon, 2*time.Second, 1000, 0)
	for range 1500 {
		now = now.Add(time.Millisecond)
		f.budget.Called(host, now)
	}
	assert.GreaterOrEqual(t, f.budget.Level(host, now), 80.0)
}

// What lies more than a second back raises nothing.
func TestBudgetShrinksAfterASecond(t *testing.T) {
	for ms := 0; ms < 1000; ms += 37 {
		f := newFleet(1)
		now := f.run(noon.Add(time.Duration(ms)*time.Millisecond), time.Second, 1000, 0)
		if !assert.GreaterOrEqual(t, f.budget.Level(host, now.Add(-time.Millisecond)), 87.0) ||
			!assert.Equal(t, 10.0, f.budget.Level(host, now.Add(time.Second))) {
			return
		}
	}
}

func TestBudgetKeepsHostsApart(t *testing.T) {
	var b Budget
	for b.Take("a", noon) {
	}
	assert.Equal(t, 0.0, b.Level("a", noon))
	assert.Equal(t, 10.0, b.Level("b", noon))
}

func TestBudgetForgetsOnlyWhatIsFresh(t *testing.T) {
	b := Budget{MaxKeys: 4}
	for _, key := range []string{"a", "b", "c", "d"} {
		require.True(t, b.Take(key, noon))
	}
	require.Equal(t, 9.0, b.Level("a", noon))
	b.Level("e", noon) // no room: it shares
	assert.Len(t, b.accounts, 4)
	for b.Take("e", noon) {
	}
	assert.Equal(t, 9.0, b.Level("b", noon), "the share is not taken from them")

	later := noon.Add(10 * time.Second) // all have 10 again
	assert.Equal(t, 10.0, b.Level("e", later), "an account of its own")
	assert.Len(t, b.accounts, 4)
	assert.NotContains(t, b.accounts, "c", "the oldest went")
	assert.Contains(t, b.accounts, "b")
}

func TestBudgetMemoryIsBounded(t *testing.T) {
	before := heap()
	var b Budget
	for i := range 50_000 {
		now := noon.Add(time.Duration(i) * time.Millisecond)
		b.Called(fmt.Sprintf("https://host-%d.example.com:443", i), now)
	}
	assert.LessOrEqual(t, len(b.accounts), 4096)
	assert.Equal(t, len(b.accounts), b.order.Len())
	assert.Less(t, heap()-before, int64(2<<20), "bytes for 4,096 keys")
	runtime.KeepAlive(&b)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The clock of a synctest bubble begins in 2000.
func TestBudgetSurvivesAClockThatJumps(t *testing.T) {
	var b Budget
	b.Called(host, noon)
	for range 3 {
		for _, now := range []time.Time{noon.AddDate(-30, 0, 0), noon, noon.AddDate(30, 0, 0)} {
			b.Called(host, now)
			b.Succeeded(host, now)
			level := b.Level(host, now)
			assert.True(t, level >= 0 && level <= 10, "level %v", level)
		}
	}
}

func TestBudgetOfManyGoroutines(t *testing.T) {
	var b Budget
	var wg sync.WaitGroup
	taken := make([]int, 8)
	for g := range taken {
		wg.Go(func() {
			for i := range 1000 {
				b.Called(host, noon.Add(time.Duration(i)*time.Millisecond))
				b.Succeeded(host, noon)
				if b.Take(host, noon) {
					taken[g]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range taken {
		sum += n
	}
	assert.LessOrEqual(t, sum, 10+800)
	assert.GreaterOrEqual(t, sum, 10)
}

func TestNoBudget(t *testing.T) {
	for range 1000 {
		assert.True(t, NoBudget.Take(host, noon))
	}
	NoBudget.Called(host, noon)
	NoBudget.Succeeded(host, noon)
	assert.Equal(t, 10.0, NoBudget.Level(host, noon))
	assert.Empty(t, NoBudget.accounts)
}

func BenchmarkBudgetSuccess(b *testing.B) {
	var budget Budget
	b.ReportAllocs()
	for b.Loop() {
		budget.Called(host, noon)
		budget.Succeeded(host, noon)
	}
}

func BenchmarkBudgetTake(b *testing.B) {
	var budget Budget
	b.ReportAllocs()
	for b.Loop() {
		budget.Take(host, noon)
	}
}

func TestBudgetWithoutABoundOfKeys(t *testing.T) {
	b, now := &Budget{MaxKeys: -1}, time.Now()
	const keys = 5000 // more than the default
	for i := range keys {
		for b.Take(strconv.Itoa(i), now) {
		}
	}
	assert.True(t, b.Take("another", now))
	for i := range keys {
		require.False(t, b.Take(strconv.Itoa(i), now), i)
	}
}
