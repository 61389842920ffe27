package redisstore_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// Ten thousand callers meet a Redis that hangs. All are answered soon after the
// deadline, and what they started is gone within a second.
func TestCrowd(t *testing.T) {
	callers := 10_000
	if redisstore.Raced {
		callers = 2_000 // the race detector stands 8,128 goroutines
	}
	for name, client := range clients {
		for _, f := range faults() {
			if f.name != "stopped" && f.name != "hangs after reading" {
				continue
			}
			t.Run(name+"/"+f.name, func(t *testing.T) {
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server.Addr)
				r := &rig{server: server, proxy: proxy}
				store := &redisstore.Store{Client: client(t, proxy.Addr)}
				charge := func(id int) error {
					_, err := store.Run(context.Background(), chargeScript, []string{"charges"}, []string{strconv.Itoa(id)})
					return err
				}
				require.NoError(t, charge(-1))
				time.Sleep(100 * time.Millisecond)
				before := runtime.NumGoroutine()

				f.begin(r)
				took := make([]time.Duration, callers)
				errs := make([]error, callers)
				var group sync.WaitGroup
				for i := range callers {
					group.Go(func() {
						start := time.Now()
						errs[i] = charge(i)
						took[i] = time.Since(start)
					})
				}
				group.Wait()
				returned := time.Now()
				for runtime.NumGoroutine() > before && time.Since(returned) < 5*time.Second {
					time.Sleep(time.Millisecond)
				}
				gone := time.Since(returned)
				f.end(r)

				for _, err := range errs {
					require.Error(t, err)
				}
				slowest := quantile(took, 1)
				t.Logf("the slowest of %d callers waited %v; goroutines were gone after %v", callers, slowest, gone)
				if !redisstore.Raced {
					assert.LessOrEqual(t, slowest, deadline+250*time.Millisecond)
					assert.LessOrEqual(t, gone, time.Second)
				}
				time.Sleep(time.Second)
				require.NoError(t, charge(callers))
				calls := make([]oneCall, callers)
				for i := range calls {
					calls[i] = oneCall{id: strconv.Itoa(i), err: errs[i]}
				}
				chargedOnce(t, server, calls, false)
			})
		}
	}
}
