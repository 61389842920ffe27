package integration

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/retry"
	"github.com/politehttp/polite/shed"
)

// One client that asks for more than a server behind a Gate can do, 100 a
// second, gets most of that: a Retry-After keeps all of its calls back, but who
// is refused again soon after slows down, too, and who would leave too late for
// its answer does not leave.
func TestClientOfAnOverloadedGate(t *testing.T) {
	for _, c := range few([]struct {
		name     string
		asked    int // a second
		deadline time.Duration
		change   func(*polite.Transport)
		least    int // answers a second from 20 s on
	}{
		{"a little too much", 110, 5 * time.Second, nil, 60},
		{"twice too much", 200, 5 * time.Second, nil, 60},
		{"twice too much, short deadline", 200, time.Second, nil, 30},
		{"a pace just below", 200, 5 * time.Second, func(t *polite.Transport) { t.Pacer = &pacer.Pacer{Rate: pacer.Per(95, time.Second)} }, 85},
		{"tells its deadline", 200, 5 * time.Second, func(t *polite.Transport) {
			t.Retry.DeadlineHeader, t.Retry.AttemptHeader = retry.DeadlineHeader, retry.AttemptHeader
		}, 55},
	}) {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lasts = 80
				gate := &shed.Gate{Limit: 5}
				h := gate.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Millisecond) }))
				tr := polite.NewTransport(into(h))
				if c.change != nil {
					c.change(tr)
				}
				began := time.Now()
				var mu sync.Mutex
				var ok [lasts + 10]int
				codes := map[any]int{}
				var calls sync.WaitGroup
				for range c.asked * lasts {
					time.Sleep(time.Second / time.Duration(c.asked))
					calls.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
						defer cancel()
						r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://server.test/", nil)
						resp, err := tr.RoundTrip(r)
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							codes["error"]++
							return
						}
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
						codes[resp.StatusCode]++
						if resp.StatusCode == http.StatusOK {
							ok[int(time.Since(began)/time.Second)]++
						}
					})
				}
				calls.Wait()
				served := 0
				for _, n := range ok[20:lasts] {
					served += n
				}
				t.Log(served/(lasts-20), "a second;", codes, ok[:30])
				assert.GreaterOrEqual(t, served/(lasts-20), c.least, "answers a second")
			})
		})
	}
}

// into is the way to a handler. A server learns that its client has left, and no
// deadline.
func into(h http.Handler) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		ctx, left := context.WithCancel(context.Background())
		defer left()
		defer context.AfterFunc(r.Context(), left)()
		in := httptest.NewRequestWithContext(ctx, r.Method, r.URL.String(), nil)
		in.Header = r.Header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, in)
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return w.Result(), nil
	})
}
