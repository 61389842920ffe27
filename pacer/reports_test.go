package pacer

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/headerparse"
)

// What users of other pacers reported, as tests.
func TestReports(t *testing.T) {
	for name, f := range map[string]func(t *testing.T){
		"golang/go#54541: a refusal for the deadline is typed, takes nothing and is known as such": func(t *testing.T) {
			p := &Pacer{Rate: Per(1, time.Second), Burst: 1}
			start := time.Now()
			leave(t, p, start, "k", 1)
			ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
			defer cancel()
			_, err := p.Wait(ctx, "k", 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var late *WaitError
			require.ErrorAs(t, err, &late)
			assert.True(t, late.Refused())
			assert.Zero(t, time.Since(start))
			assert.Equal(t, time.Second, leave(t, p, start, "k", 1))
		},
		"golang/go#54541: a rate that rises reaches who waits": func(t *testing.T) {
			p := &Pacer{Rate: Per(1, time.Minute), Burst: 1}
			start := time.Now()
			leave(t, p, start, "k", 1)
			time.AfterFunc(time.Second, func() { p.SetRate(Rate{}, 0) })
			assert.Equal(t, time.Second, leave(t, p, start, "k", 1))
		},
		"golang/go#54541: one that goes, in the middle, gives back all it would have had": func(t *testing.T) {
			p := &Pacer{Rate: Per(1, time.Second), Burst: 1}
			start := time.Now()
			leave(t, p, start, "k", 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _, _ = p.Wait(ctx, "k", 1) }()
			synctest.Wait()
			time.AfterFunc(100*ms, cancel)
			assert.Equal(t, time.Second, leave(t, p, start, "k", 1))
		},
		"kubernetes/kubernetes#137694: a deadline that has passed is not a wait": func(t *testing.T) {
			p := &Pacer{Rate: Per(1, time.Second)}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			time.Sleep(time.Second)
			_, err := p.Wait(ctx, "k", 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Zero(t, leave(t, p, time.Now(), "k", 1))
		},
		"hashicorp/go-retryablehttp#297: a wait of centuries, none, or less is bounded": func(t *testing.T) {
			for wait, want := range map[time.Duration]time.Duration{math.MaxInt64: time.Hour, 0: 0, -1: 0, math.MinInt64: 0} {
				p := unjittered(&Pacer{MaxWait: -1})
				start := time.Now()
				p.Observe("k", headerparse.Signal{Status: 403, Told: true, Wait: wait}, start)
				assert.Equal(t, want, leave(t, p, start, "k", 1))
			}
		},
		"kubernetes/kubernetes#34938: what follows a 429 passes the pacer too": func(t *testing.T) {
			p := unjittered(&Pacer{Rate: Per(1, time.Second), Burst: 1})
			start := time.Now()
			leave(t, p, start, "k", 1)
			p.Observe("k", told(429, 100*ms), start)
			assert.Equal(t, time.Second, leave(t, p, start, "k", 1))
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}
