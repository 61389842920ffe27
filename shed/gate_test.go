package shed_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/shed"
)

func TestSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, Queue: 1}
		h := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }))
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				t.Log(w.Code, w.Header(), w.Body)
			})
		}
		all.Wait()
		require.Equal(t, 0, g.Stats().InFlight)
		t.Log(g.Stats())
	})
}
