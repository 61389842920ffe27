package redisstore_test

import (
	"context"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
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
				// Each connection through the proxy costs it two goroutines.
				goroutines := func() int { return runtime.NumGoroutine() - 2*proxy.Conns() }
				before := goroutines()

				f.begin(r)
				took := make([]time.Duration, callers)
				errs := make([]error, callers)
				var late time.Duration // a bare timer meanwhile, which tells how busy this machine is
				var group sync.WaitGroup
				group.Go(func() {
					start := time.Now()
					<-time.After(deadline)
					late = time.Since(start) - deadline
				})
				for i := range callers {
					group.Go(func() {
						start := time.Now()
						errs[i] = charge(i)
						took[i] = time.Since(start)
					})
				}
				group.Wait()
				returned := time.Now()
				for goroutines() > before && time.Since(returned) < 5*time.Second {
					time.Sleep(time.Millisecond)
				}
				gone := time.Since(returned)
				if gone > time.Second {
					var stacks strings.Builder
					_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
					t.Logf("%d goroutines instead of %d:\n%s", goroutines(), before, stacks.String())
				}
				f.end(r)

				for _, err := range errs {
					require.Error(t, err)
				}
				slowest := quantile(took, 1)
				t.Logf("the slowest of %d callers waited %v; a bare timer was %v late; goroutines were gone after %v", callers, slowest, late, gone)
				if !redisstore.Raced {
					assert.LessOrEqual(t, slowest, deadline+250*time.Millisecond+late)
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
