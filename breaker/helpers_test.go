package breaker

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	host = "https://api.example.com:443"
	tick = time.Nanosecond // the least that a clock can differ
)

// exact takes the jitter out: an open period lasts its whole length, and a told
// wait is not lengthened.
func exact(b *Breaker) *Breaker {
	b.random = func() float64 { return 0 }
	return b
}

// do makes one call that must be let pass.
func do(t testing.TB, b *Breaker, key string, outcomes ...Outcome) {
	t.Helper()
	for _, o := range outcomes {
		enter(t, b, key).Done(o, 0, time.Time{})
	}
}

func enter(t testing.TB, b *Breaker, key string) Permit {
	t.Helper()
	p, err := b.Enter(key, time.Time{})
	require.NoError(t, err)
	return p
}

// requireRefused requires that a call is refused for exactly so long.
func requireRefused(t testing.TB, b *Breaker, key string, want time.Duration) {
	t.Helper()
	_, err := b.Enter(key, time.Time{})
	var open *OpenError
	require.ErrorAs(t, err, &open)
	require.Equal(t, want, open.RetryAfter)
	require.Equal(t, key, open.Key)
	left, isOpen := b.Open(key, time.Time{})
	require.True(t, isOpen)
	require.Equal(t, want, left)
}

func requireAsksOpen(t testing.TB, b *Breaker, key string, want bool) {
	t.Helper()
	left, open := b.Open(key, time.Time{})
	require.Equal(t, want, open)
	require.Equal(t, want, left > 0, "remaining %v", left)
}

func refused(err error) bool {
	var open *OpenError
	return errors.As(err, &open)
}

// stateOf is the state of a circuit, Closed if there is none.
func (b *Breaker) stateOf(key string) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.keys.byKey[key]; c != nil {
		return c.era.Load().state
	}
	return Closed
}

// log records changes as "closed>open".
func log(b *Breaker) *[]string {
	var got []string
	b.OnChange = func(_ string, from, to State) { got = append(got, from.String()+">"+to.String()) }
	return &got
}

func times(n int, o Outcome) []Outcome {
	all := make([]Outcome, n)
	for i := range all {
		all[i] = o
	}
	return all
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
