package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/limiter"
)

// Both ends of one conversation: NewTransport as it is, which nobody told a
// rate, against a Guard, 20 ms away, with 32 callers who never have enough. It
// learns from the fields of the answers, and after the first ten seconds of 300
// it is refused no more.
func TestClientLearnsWhatTheGuardTells(t *testing.T) {
	ten := 10 * time.Second
	five := limiter.Per(5, time.Second)
	day := must(limiter.Quota("day", 100_000, limiter.Day, nil))
	for _, c := range few([]struct {
		name   string
		limits []*limiter.Limit
		burst  float64 // beside 5 a second
		use    float64 // at least, of what the limit gives in 300 s
	}{
		{"window of 10 s", one(limiter.FixedWindow("w", 50, ten, limiter.ToClock)), 0, 0.97},
		{"window of a minute", one(limiter.FixedWindow("w", 300, time.Minute, limiter.ToClock)), 0, 0.97},
		{"bucket", one(limiter.TokenBucket("b", five, 10)), 10, 0.97},
		{"meter", one(limiter.LeakyMeter("m", five, 10)), 10, 0.97},
		{"queue", one(limiter.LeakyQueue("q", five, 10)), 10, 0.97},
		{"window and day", []*limiter.Limit{must(limiter.FixedWindow("w", 50, ten, limiter.ToClock)), day}, 0, 0.97},
		{"bucket and day", []*limiter.Limit{must(limiter.TokenBucket("b", five, 10)), day}, 10, 0.97},

		// What follows gives back as it was used, or when it is asked again: a
		// client that is not to be refused leaves some of it.
		{"window of 10 s from the first", one(limiter.FixedWindow("w", 50, ten, limiter.ToFirst)), 0, 0.85},
		{"window of 2 s", one(limiter.FixedWindow("w", 10, 2*time.Second, limiter.ToClock)), 0, 0.85}, // told in whole seconds
		{"sliding counter", one(limiter.SlidingCounter("c", 50, ten)), 0, 0.8},
		{"sliding log", one(limiter.SlidingLog("l", 50, ten)), 0, 0.8},
		{"sliding buckets", one(limiter.SlidingBuckets("s", 50, ten, 10)), 0, 0.7},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := meet(t, 1, c.limits)
			admitted, _ := l.count(0, loopTime)
			_, refused := l.count(ten, loopTime)
			t.Logf("%d admitted in %v", admitted, loopTime)
			assert.GreaterOrEqual(t, float64(admitted), c.use*(5*loopTime.Seconds()+c.burst), "calls admitted")
			assert.Zero(t, refused, "calls refused after the first ten seconds")
		})
	}
}

// Processes that share a limit do not hear of each other. That costs refusals,
// since each has to find out that nothing is left, but there is no storm, and
// the limit is used.
func TestClientsShareWhatTheGuardTells(t *testing.T) {
	five := limiter.Per(5, time.Second)
	ten := 10 * time.Second
	for _, c := range few([]struct {
		name    string
		limits  []*limiter.Limit
		clients int
		burst   float64
		use     float64
		refused float64 // at most, of all calls after the first ten seconds
	}{
		{"window", one(limiter.FixedWindow("w", 50, ten, limiter.ToClock)), 2, 0, 0.97, 0.04}, // each but one, once a window
		{"window", one(limiter.FixedWindow("w", 50, ten, limiter.ToClock)), 4, 0, 0.97, 0.08},
		{"short window", one(limiter.FixedWindow("w", 10, 2*time.Second, limiter.ToClock)), 2, 0, 0.97, 0.12},
		{"bucket", one(limiter.TokenBucket("b", five, 10)), 2, 10, 0.97, 0.01},
		{"bucket", one(limiter.TokenBucket("b", five, 10)), 4, 10, 0.97, 0.1},
		{"meter", one(limiter.LeakyMeter("m", five, 10)), 2, 10, 0.97, 0.01},
		{"queue", one(limiter.LeakyQueue("q", five, 10)), 2, 10, 0.97, 0.15},
		{"sliding counter", one(limiter.SlidingCounter("c", 50, ten)), 2, 0, 0.75, 0.02},
		{"sliding log", one(limiter.SlidingLog("l", 50, ten)), 2, 0, 0.7, 0.04},
	}) {
		t.Run(fmt.Sprintf("%s, %d clients", c.name, c.clients), func(t *testing.T) {
			t.Parallel()
			l := meet(t, c.clients, c.limits)
			admitted, _ := l.count(0, loopTime)
			served, refused := l.count(ten, loopTime)
			share := float64(refused) / float64(served+refused)
			least := admitted
			for client := range c.clients {
				least = min(least, l.admittedTo(client))
			}
			t.Logf("%d admitted in %v, to one client %d; later %.1f %% refused", admitted, loopTime, least, 100*share)
			assert.GreaterOrEqual(t, float64(admitted), c.use*(5*loopTime.Seconds()+c.burst), "calls admitted")
			assert.LessOrEqual(t, share, c.refused, "share of calls refused after the first ten seconds")
			assert.GreaterOrEqual(t, c.clients*least, admitted/2, "calls admitted to the client that got least")
		})
	}
}

const (
	loopTime    = 300 * time.Second
	loopLatency = 20 * time.Millisecond // there and back
	loopCallers = 32                    // of each client
)

func must(l *limiter.Limit, err error) *limiter.Limit {
	if err != nil {
		panic(err)
	}
	return l
}

func one(l *limiter.Limit, err error) []*limiter.Limit { return []*limiter.Limit{must(l, err)} }

// loop is clients and a Guard that meet in memory.
type loop struct {
	guard http.Handler
	began time.Time

	mu  sync.Mutex
	log []decided
}

// decided is what the Guard said to a call.
type decided struct {
	at       time.Duration
	client   int
	admitted bool
}

// meet lets clients call a Guard, in a bubble of fake time.
func meet(t *testing.T, clients int, limits []*limiter.Limit) (l *loop) {
	synctest.Test(t, func(t *testing.T) {
		guard := &limiter.Guard{Rules: []limiter.Rule{{Key: limiter.ByAddress(nil), Limits: limits}}}
		served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		l = &loop{guard: guard.Handler(served), began: time.Now()}
		var calls sync.WaitGroup
		for c := range clients {
			client := &http.Client{Transport: polite.NewTransport(l.base(c))}
			for range loopCallers {
				calls.Go(func() {
					for time.Since(l.began) < loopTime {
						resp, err := client.Get("http://provider.test/")
						if !assert.NoError(t, err) {
							return
						}
						_, err = io.Copy(io.Discard, resp.Body)
						assert.NoError(t, err)
						assert.NoError(t, resp.Body.Close())
					}
				})
			}
		}
		calls.Wait()
	})
	return l
}

// base is the way of a client to the Guard and back.
func (l *loop) base(client int) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		time.Sleep(loopLatency / 2)
		at := time.Since(l.began)
		in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), nil)
		w := httptest.NewRecorder()
		l.guard.ServeHTTP(w, in)
		l.mu.Lock()
		l.log = append(l.log, decided{at, client, w.Code == http.StatusOK})
		l.mu.Unlock()
		time.Sleep(loopLatency / 2)
		resp := w.Result()
		resp.Request = r
		return resp, nil
	})
}

func (l *loop) count(from, to time.Duration) (admitted, refused int) {
	for _, d := range l.log {
		switch {
		case d.at < from || d.at >= to:
		case d.admitted:
			admitted++
		default:
			refused++
		}
	}
	return admitted, refused
}

func (l *loop) admittedTo(client int) (n int) {
	for _, d := range l.log {
		if d.client == client && d.admitted && d.at < loopTime {
			n++
		}
	}
	return n
}
