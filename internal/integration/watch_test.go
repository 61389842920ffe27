package integration

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/retry"
)

// patientTransport is the recommended one, for a job that must get through: it
// learns the provider's limits and tries until it is served.
func patientTransport(base http.RoundTripper) *polite.Transport {
	rt := polite.NewTransport(base)
	rt.Retry.MaxAttempts = 10
	rt.Retry.Budget = retry.NoBudget
	rt.Retry.OutlastOpen = true
	return rt
}

// watch notes, by its hooks, when attempts start and how they end.
type watch struct {
	began time.Time

	mu       sync.Mutex
	starts   []departure
	attempts []attempt // those that ended
	retried  map[observe.Reason]int
	gaveUp   map[observe.Reason]int
}

// departure is an attempt that starts, since the watch began.
type departure struct {
	called time.Duration // when its call was made; zero if nobody said so
	at     time.Duration
}

type calledKey struct{}

type attempt struct {
	start  time.Duration // since the watch began
	took   time.Duration
	status int // zero: no answer
}

func newWatch() *watch {
	return &watch{began: time.Now(), retried: make(map[observe.Reason]int), gaveUp: make(map[observe.Reason]int)}
}

func (w *watch) hooks() *observe.Hooks {
	return &observe.Hooks{
		Attempted: func(ctx context.Context, _ observe.Attempt) {
			w.mu.Lock()
			defer w.mu.Unlock()
			called, _ := ctx.Value(calledKey{}).(time.Duration)
			w.starts = append(w.starts, departure{called, time.Since(w.began)})
		},
		Answered: func(_ context.Context, a observe.Answer) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.attempts = append(w.attempts, attempt{time.Since(w.began) - a.Took, a.Took, a.Status})
		},
		Retried: func(_ context.Context, r observe.Retry) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.retried[r.Reason]++
		},
		GaveUp: func(_ context.Context, g observe.GaveUp) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.gaveUp[g.Reason]++
		},
	}
}

// refused counts the attempts that started after d, and those answered by none
// of 2xx.
func (w *watch) refused(d time.Duration) (refused, all int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.attempts {
		if a.start >= d {
			all++
			if a.status/100 != 2 {
				refused++
			}
		}
	}
	return refused, all
}

// stalled tells whether an answer took a tenth of a second, where a thousandth
// is usual: client, server or both were not running for so long.
func (w *watch) stalled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.attempts, func(a attempt) bool { return a.took >= 100*time.Millisecond })
}

// String shows the whole as a line a second: what to look at when a test fails.
func (w *watch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	perSecond := make(map[int]map[int]int)
	for _, a := range w.attempts {
		s := int(a.start / time.Second)
		if perSecond[s] == nil {
			perSecond[s] = make(map[int]int)
		}
		perSecond[s][a.status]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d attempts, retried %v, gave up %v", len(w.attempts), w.retried, w.gaveUp)
	for _, s := range slices.Sorted(maps.Keys(perSecond)) {
		fmt.Fprintf(&b, "\n  second %2d: %v", s, perSecond[s])
	}
	return b.String()
}

// getAll sends n GETs from as many callers, and returns how many were answered 200.
func getAll(t *testing.T, rt http.RoundTripper, url string, callers, n int) int {
	t.Helper()
	client := &http.Client{Transport: rt}
	var left, served atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				resp, err := client.Get(url)
				if !assert.NoError(t, err) {
					continue
				}
				_, err = io.Copy(io.Discard, resp.Body)
				assert.NoError(t, err)
				assert.NoError(t, resp.Body.Close())
				if resp.StatusCode == http.StatusOK {
					served.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(served.Load())
}

// newBase is a base of the test's own, with a connection for each caller.
func newBase(t *testing.T) *http.Transport {
	t.Helper()
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.Proxy = nil
	base.MaxIdleConnsPerHost = 100
	t.Cleanup(base.CloseIdleConnections)
	return base
}
