package pacer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/headerparse"
)

// Who reads the error learns what the call would have waited for, and which
// bound that was over.
func TestWaitErrorTellsWhy(t *testing.T) {
	refused := headerparse.Signal{Status: 429, Told: true, Wait: time.Hour, By: -1}
	for _, c := range []struct {
		name  string
		pacer *Pacer
		learn func(p *Pacer)
		most  time.Duration // the context's; zero: none
		want  string
	}{
		{
			"pace", &Pacer{Rate: Per(1, time.Hour), Burst: 1}, func(p *Pacer) { p.Wait(context.Background(), "k", 1) }, 0,
			"pacer: not sent: a wait of 1h0m0s for the pace would be over MaxWait, which is 5m0s",
		},
		{
			"pace and deadline", &Pacer{Rate: Per(1, time.Hour), Burst: 1}, func(p *Pacer) { p.Wait(context.Background(), "k", 1) }, time.Second,
			"pacer: not sent: a wait of 1h0m0s for the pace would outlive its deadline",
		},
		{"hold", &Pacer{}, func(p *Pacer) { p.Observe("k", refused, time.Now()) }, time.Minute, "the end of a hold, which the provider asked for, would outlive its deadline"},
		{
			"in flight", &Pacer{MaxInFlight: 1, MaxWait: time.Second}, func(p *Pacer) { p.Wait(context.Background(), "k", 1) }, 0,
			"pacer: not sent: a wait of unknown length for a place in flight would be over MaxWait, which is 1s",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.learn(c.pacer)
				ctx := t.Context()
				if c.most > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.most)
					defer cancel()
				}
				_, err := c.pacer.Wait(ctx, "k", 1)
				var late *WaitError
				require.ErrorAs(t, err, &late)
				assert.Contains(t, err.Error(), c.want)
				assert.Equal(t, "k", late.Key)
			})
		})
	}
}
