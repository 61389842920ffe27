package breaker

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWindow(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wait  time.Duration // between nine failures and the tenth
		opens bool
	}{
		{"at once", 0, true},
		{"just inside", 10*time.Second - 1, true},
		{"just outside", 10 * time.Second, false},
		{"long after", time.Hour, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := exact(&Breaker{Failures: -1, FailureRate: 0.5, MinCalls: 20, Window: 10 * time.Second})
				time.Sleep(12345 * time.Millisecond) // cells begin with the first call
				do(t, b, host, times(10, Success)...)
				do(t, b, host, times(9, Failure)...)
				time.Sleep(tc.wait)
				do(t, b, host, Failure)
				requireAsksOpen(t, b, host, tc.opens)
			})
		})
	}
}

func TestWindowOfAnyLength(t *testing.T) {
	for _, window := range []time.Duration{1, 100 * 365 * 24 * time.Hour, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			b := exact(&Breaker{Failures: -1, FailureRate: 0.5, MinCalls: 4, Window: window})
			do(t, b, host, times(3, Failure)...)
			requireAsksOpen(t, b, host, false)
			do(t, b, host, Failure)
			requireAsksOpen(t, b, host, true)
		})
	}
}

// A success on the edge of two cells belongs to the later.
func TestWindowEdge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exact(&Breaker{Failures: -1, FailureRate: 0.5, MinCalls: 2, Window: 10 * time.Second})
		do(t, b, host, Success)
		time.Sleep(time.Second)
		do(t, b, host, Success)
		time.Sleep(9500 * time.Millisecond)
		do(t, b, host, Failure)
		requireAsksOpen(t, b, host, true)
	})
}

// A model that keeps every call and counts by cells says when to open.
func TestWindowAgainstModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type event struct {
			at  time.Duration
			bad bool
		}
		start, random := time.Now(), newRand(1)
		b := exact(&Breaker{Failures: -1, FailureRate: 2, MinCalls: 1, Window: 10 * time.Second})
		var events []event
		var first time.Duration // of the ring
		newest := -time.Hour    // start of the newest cell
		for range 5000 {
			time.Sleep(time.Duration(random.ExpFloat64() * float64(400*time.Millisecond)))
			if random.IntN(100) == 0 {
				time.Sleep(15 * time.Second)
			}
			e := event{time.Since(start), random.IntN(3) == 0}
			if e.at-newest >= 10*time.Second {
				first, events = e.at, nil
			}
			newest = first + (e.at-first)/time.Second*time.Second
			events = append(events, e)
			do(t, b, host, Success)
			if e.bad {
				do(t, b, host, Failure)
				var bad, all int64
				for _, e := range events {
					if e.at < newest-9*time.Second {
						continue
					}
					all++
					if e.bad {
						bad, all = bad+1, all+1
					}
				}
				b.mu.Lock()
				w := b.keys.byKey[host].era.Load().window
				gotBad, gotAll := w.count()
				b.mu.Unlock()
				require.Equal(t, [2]int64{bad, all}, [2]int64{gotBad, gotAll})
			}
		}
	})
}
