package main

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/pipenet"
)

// The whole demonstration, over a network in memory and in fake time, so that
// the numbers are those of the limits and the clients alone.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newServer("http://api.test")
		require.NoError(t, err)
		_, base := pipenet.Serve(t, fromHere(s.api))
		base.MaxIdleConnsPerHost = 64
		pairs := s.rules.pairs()
		together(t.Context(), base, "http://api.test", period, pairs)
		var out bytes.Buffer
		report(&out, pairs, period)
		t.Log("\n" + out.String())

		require.NoError(t, problems(pairs))
		for _, p := range pairs {
			limit := most(p.limits, period)
			for _, c := range p.both() {
				units := int64(c.admitted()) * c.cost
				assert.LessOrEqual(t, units, limit, "%s, %s", p.who, c.kind())
				assert.GreaterOrEqual(t, float64(units), 0.85*float64(limit), "%s, %s", p.who, c.kind())
			}
			if p.polite != nil {
				assert.Less(t, p.polite.refused*20, p.naive.refused, p.who)
			}
		}
	})
}

// fromHere lets the API take connections in memory, which have no address, for
// those of the load balancer.
func fromHere(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = "127.0.0.1:1"
		h.ServeHTTP(w, r)
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"--for", "1s"}, &out))
	assert.Contains(t, out.String(), "guesses passwords")
	assert.Contains(t, out.String(), "The provider's monitor")
}

func TestServe(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan string, 1)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"--serve", "127.0.0.1:0"}, first(said)) }()
	select {
	case text := <-said:
		assert.Contains(t, text, "curl -i http://127.0.0.1:")
	case err := <-ended:
		require.FailNow(t, "it ended at once", "%v", err)
	}
	cancel()
	require.NoError(t, <-ended)
}

// first hands on the first thing that is written.
type first chan string

func (f first) Write(b []byte) (int, error) {
	f <- string(b)
	return len(b), nil
}

func TestWhatIsNoCommand(t *testing.T) {
	for _, args := range [][]string{{"serve"}, {"--for", "1ms"}, {"--serve", "nowhere"}} {
		assert.Error(t, run(t.Context(), args, &bytes.Buffer{}), "%q", args)
	}
}
