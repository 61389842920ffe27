package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// While a slot moves and its keys are at the new owner, the old one answers ASK:
// who is charged there is charged once.
func TestClusterAsks(t *testing.T) {
	beside(t)
	for name, client := range clusterClients {
		t.Run(name, func(t *testing.T) {
			beside(t)
			c := redistest.StartCluster(t)
			s := &redisstore.Store{Client: client(t, c.Addrs()), Timeout: time.Second}
			a, b, d3 := ofWindow(t, "a", 1000), ofWindow(t, "b", 1000), ofWindow(t, "c", 1000)
			stack := func(k string) []limiter.Charge {
				return []limiter.Charge{a.Charge(k, 1), b.Charge(k, 1), d3.Charge(k, 1)}
			}
			take := func(ch ...limiter.Charge) limiter.Decision {
				d, err := s.Take(t.Context(), ch...)
				require.NoError(t, err)
				return d
			}
			redistest.Eventually(t, "there", func() bool { return take(stack("k")...).Degraded == nil })
			before := used(t, s, a, "k")
			slot := c.Slot("{polite}")
			to := c.Nodes[0]
			if c.Owner(slot) == to {
				to = c.Nodes[1]
			}
			c.BeginMove(slot, to)
			for c.MoveKeys(slot, 1, to) > 0 {
			}
			for i := range 10 {
				d := take(stack("k")...)
				assert.NoError(t, d.Degraded, "stack %d", i)
				d = take(a.Charge("k", 1))
				assert.NoError(t, d.Degraded, "single %d", i)
				d = take(a.Charge("new"+strconv.Itoa(i), 1))
				assert.NoError(t, d.Degraded, "new %d", i)
			}
			assert.EqualValues(t, before+20, used(t, s, a, "k"))
			c.EndMove(slot, to)
			for range 10 {
				assert.NoError(t, take(stack("k")...).Degraded)
			}
			assert.EqualValues(t, before+30, used(t, s, a, "k"))
		})
	}
}
