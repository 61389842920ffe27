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

	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// Ten thousand callers meet a Redis that hangs. All are answered soon after the
// deadline, and what they started is gone within a second.
func TestCrowd(t *testing.T) {
	for name, client := range clients {
		for _, f := range faults() {
			if f.name != "stopped" && f.name != "hangs after reading" {
				continue
			}
			t.Run(name+"/"+f.name, func(t *testing.T) {
				inTime(t)
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server.Addr)
				c := &crowd{
					rig:   &rig{server: server, proxy: proxy},
					store: &redisstore.Store{Client: client(t, proxy.Addr)},
				}
				redistest.Eventually(t, "Redis is asked", func() bool { return c.charge() == nil })
				for try := 1; ; try++ { // the best of three: others use this machine too
					slowest, gone := c.meets(t, f)
					if redisstore.Raced || slowest <= deadline+250*time.Millisecond && gone <= time.Second {
						break
					}
					if try == 3 {
						assert.LessOrEqual(t, slowest, deadline+250*time.Millisecond)
						assert.LessOrEqual(t, gone, time.Second)
						break
					}
				}
				chargedOnce(t, server, c.calls, false)
			})
		}
	}
}

type crowd struct {
	rig   *rig
	store *redisstore.Store

	mu    sync.Mutex
	calls []oneCall
}

func (c *crowd) charge() error {
	c.mu.Lock()
	i := len(c.calls)
	id := strconv.Itoa(i)
	c.calls = append(c.calls, oneCall{id: id})
	c.mu.Unlock()
	start := time.Now()
	_, err := c.store.Run(context.Background(), chargeScript, []string{"charges"}, []string{id})
	took := time.Since(start)
	c.mu.Lock()
	c.calls[i].took, c.calls[i].err = took, err
	c.mu.Unlock()
	return err
}

// meets lets the crowd meet a fault. It returns how long the slowest waited, and
// after how long there were no more goroutines than before.
func (c *crowd) meets(t *testing.T, f fault) (slowest, gone time.Duration) {
	callers := 10_000
	if redisstore.Raced {
		callers = 2_000 // the race detector stands 8,128 goroutines
	}
	time.Sleep(100 * time.Millisecond)
	// Each connection through the proxy costs it two goroutines.
	goroutines := func() int { return runtime.NumGoroutine() - 2*c.rig.proxy.Conns() }
	before, first := goroutines(), len(c.calls)

	f.begin(c.rig)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() { assert.Error(t, c.charge()) })
	}
	group.Wait()
	returned := time.Now()
	for goroutines() > before && time.Since(returned) < 5*time.Second {
		time.Sleep(time.Millisecond)
	}
	gone = time.Since(returned)
	if gone > time.Second {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		t.Logf("%d goroutines instead of %d:\n%s", goroutines(), before, stacks.String())
	}
	f.end(c.rig)

	slowest = quantile(took(c.calls[first:]), 1)
	t.Logf("the slowest of %d callers waited %v; goroutines were gone after %v", callers, slowest, gone)
	redistest.Eventually(t, "Redis is asked again", func() bool { return c.charge() == nil })
	return slowest, gone
}
