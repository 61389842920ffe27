package observe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
)

func TestWith(t *testing.T) {
	ctx := context.Background()
	assert.Nil(t, observe.From(ctx))
	assert.Equal(t, ctx, observe.With(ctx, nil))

	var got []string
	say := func(who string) *observe.Hooks {
		return &observe.Hooks{Retried: func(context.Context, observe.Retry) { got = append(got, who) }}
	}
	outer := say("outer")
	ctx = observe.With(ctx, outer)
	assert.Same(t, outer, observe.From(ctx))
	assert.Same(t, outer, observe.From(observe.With(ctx, outer)), "the same hooks twice would report twice")

	both := observe.With(ctx, say("inner"))
	observe.From(both).Retried(both, observe.Retry{})
	assert.Equal(t, []string{"outer", "inner"}, got)
	assert.Nil(t, observe.From(both).GaveUp, "nil and nil stay nil, so that they cost a comparison")
}

func TestEveryHookIsJoined(t *testing.T) {
	n := 0
	count := func() *observe.Hooks {
		return &observe.Hooks{
			Paced:          func(context.Context, observe.Paced) { n++ },
			Attempted:      func(context.Context, observe.Attempt) { n++ },
			Answered:       func(context.Context, observe.Answer) { n++ },
			Retried:        func(context.Context, observe.Retry) { n++ },
			GaveUp:         func(context.Context, observe.GaveUp) { n++ },
			BreakerChanged: func(context.Context, observe.BreakerChange) { n++ },
			QuotaLow:       func(context.Context, observe.Quota) { n++ },
			QuotaSpent:     func(context.Context, observe.Quota) { n++ },
		}
	}
	ctx := observe.With(observe.With(context.Background(), count()), count())
	every(ctx, observe.From(ctx))
	assert.Equal(t, 16, n)
}

// every calls each hook once, with a secret wherever a caller's text could get in.
func every(ctx context.Context, h *observe.Hooks) {
	a := observe.Attempt{Method: "POST", Host: "https://api.test:443", N: 2}
	leaky := &url.Error{Op: "Get", URL: "https://api.test/?key=s3cret", Err: errors.New("connection reset")}
	h.Paced(ctx, observe.Paced{Key: "k", N: 1, Wait: time.Second, Reason: observe.Hold})
	h.Attempted(ctx, a)
	h.Answered(ctx, observe.Answer{Attempt: a, Err: fmt.Errorf("outer: %w", leaky), Took: time.Millisecond, Told: time.Minute, IsTold: true})
	h.Retried(ctx, observe.Retry{Attempt: a, Wait: time.Second, Reason: observe.Told})
	h.GaveUp(ctx, observe.GaveUp{Attempt: a, Reason: observe.Budget})
	h.BreakerChanged(ctx, observe.BreakerChange{Key: "k", From: "closed", To: "open"})
	h.QuotaLow(ctx, observe.Quota{Quota: "day", Key: "k", Limit: 100, Left: 9})
	h.QuotaSpent(ctx, observe.Quota{Quota: "day", Key: "k", Limit: 100})
}

func TestSlogWritesEveryEventAndNoSecret(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	every(context.Background(), observe.Slog(log))
	assert.Equal(t, 8, bytes.Count(out.Bytes(), []byte("\n")), out.String())
	assert.NotContains(t, out.String(), "s3cret")
	for _, want := range []string{"level=INFO msg=paced", `error="connection reset"`, "told=1m0s", `level=WARN msg="circuit open"`, "left=9"} {
		assert.Contains(t, out.String(), want)
	}
}

func TestSlogDefault(t *testing.T) {
	old := slog.Default()
	t.Cleanup(func() { slog.SetDefault(old) })
	h := observe.Slog(nil)
	var out bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	h.GaveUp(context.Background(), observe.GaveUp{Reason: observe.Budget})
	require.Contains(t, out.String(), "reason=budget")
}
