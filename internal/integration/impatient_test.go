package integration

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/retry"
	"github.com/politehttp/polite/shed"
)

// On a server with room, calls that have too little time are refused and nobody
// else: they say nothing of the server.
func TestImpatientCallsHarmNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &shed.Gate{Limit: 5}
		h := gate.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Millisecond) }))
		tr := polite.NewTransport(into(h))
		tr.Retry.DeadlineHeader, tr.Retry.AttemptHeader = retry.DeadlineHeader, retry.AttemptHeader
		call := func(d time.Duration) (ok bool) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://server.test/", nil)
			resp, err := tr.RoundTrip(r)
			if err != nil {
				return false
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		}
		var calls sync.WaitGroup
		var mu sync.Mutex
		served, asked := 0, 0
		for i := range 800 { // 20 a second
			time.Sleep(50 * time.Millisecond)
			if i%10 == 0 {
				calls.Go(func() { call(30 * time.Millisecond) })
			}
			asked++
			calls.Go(func() {
				if call(time.Second) {
					mu.Lock()
					served++
					mu.Unlock()
				}
			})
		}
		calls.Wait()
		t.Log(served, "of", asked, gate.Stats())
		assert.GreaterOrEqual(t, served, asked*98/100)
	})
}
