package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// ofWindow is a limit whose level says how often it was charged.
func ofWindow(t testing.TB, name string, quota int64) *limiter.Limit {
	t.Helper()
	l, err := limiter.FixedWindow(name, quota, time.Hour, limiter.ToFirst)
	require.NoError(t, err)
	return l
}

func ofAll(l *limiter.Limit) *limiter.Limit {
	l.Global = true
	return l
}

// ofTenant is the tag of keys such as acme and acme/ada.
func ofTenant(c limiter.Charge) string {
	tenant, _, _ := strings.Cut(c.Key, "/")
	return tenant
}

// used returns what was charged, as Redis has it.
func used(t testing.TB, s *redisstore.Store, l *limiter.Limit, key string) int64 {
	t.Helper()
	var d limiter.Decision
	require.Eventually(t, func() bool {
		var err error
		d, err = s.Take(t.Context(), l.Charge(key, 0))
		require.NoError(t, err)
		return d.Degraded == nil
	}, 5*time.Second, 5*time.Millisecond)
	return l.Quota() - d.Remaining
}

// A user, the tenant and everybody are limited in one decision, in a cluster
// too: exactly, however many ask at once.
func TestClusterStack(t *testing.T) {
	beside(t)
	c := redistest.StartCluster(t)
	for name := range clusterClients {
		for how, tag := range map[string]func(limiter.Charge) string{"one tag": nil, "a tag a tenant": ofTenant} {
			t.Run(name+"/"+how, func(t *testing.T) {
				s := &redisstore.Store{Client: patient(t, name, c.Addrs()), Prefix: name + how, Tag: tag, Timeout: 10 * time.Second, NearKeys: -1}
				const tenants, each = 8, 20
				user, tenant, all := ofWindow(t, "user", 10), ofWindow(t, "tenant", 15), ofAll(ofWindow(t, "all", 100))
				var admitted [tenants]atomic.Int64
				var group sync.WaitGroup
				for i := range 64 {
					group.Go(func() {
						at := i % tenants
						key := "tenant " + strconv.Itoa(at)
						for range each {
							d, err := s.Take(t.Context(), user.Charge(key+"/"+strconv.Itoa(i), 1), tenant.Charge(key, 1), all.Charge("", 1))
							if !assert.NoError(t, err) || !assert.NoError(t, d.Degraded) {
								return
							}
							if d.Allowed {
								admitted[at].Add(1)
							}
						}
					})
				}
				group.Wait()
				sum := int64(0)
				for at := range tenants {
					n := admitted[at].Load()
					sum += n
					assert.LessOrEqual(t, n, int64(15))
					assert.Equal(t, n, used(t, s, tenant, "tenant "+strconv.Itoa(at)), "what was refused by all is given back")
				}
				assert.Equal(t, int64(100), sum)
				assert.Equal(t, int64(100), used(t, s, all, ""))

				if tag == nil {
					return
				}
				ctx := t.Context()
				_, err := s.Take(ctx, user.Charge("tenant 1/a", 1), tenant.Charge("tenant 2", 1))
				require.ErrorContains(t, err, "Store.Tag")
				holding := 0
				for _, node := range c.Nodes {
					if strings.Contains(node.Do("KEYS", "*"), "{tenant ") {
						holding++
					}
				}
				assert.Greater(t, holding, 1, "tenants are spread")
			})
		}
	}
}

// counts are decisions on one limit and key, by what is known of each.
type counts struct{ charged, uncertain, unsent, refused atomic.Int64 }

func (c *counts) add(d limiter.Decision) {
	var answered *redisstore.ReplyError
	var open *breaker.OpenError
	switch {
	case d.Degraded == nil && d.Allowed:
		c.charged.Add(1)
	case d.Degraded == nil:
		c.refused.Add(1)
	case errors.As(d.Degraded, &answered), errors.As(d.Degraded, &open), errors.Is(d.Degraded, redisstore.ErrBusy):
		c.unsent.Add(1)
	default:
		c.uncertain.Add(1)
	}
}

// exactly says that all that was told to be charged was, once.
func (c *counts) exactly(t testing.TB, what string, used int64) {
	t.Helper()
	charged, uncertain := c.charged.Load(), c.uncertain.Load()
	t.Logf("%s: charged %d, uncertain %d, not charged %d; Redis says %d", what, charged, uncertain, c.unsent.Load(), used)
	assert.GreaterOrEqual(t, used, charged, what)
	assert.LessOrEqual(t, used, charged+uncertain, what)
}

// While slots move, charges follow them, or the limits' policy answers; nothing
// is charged twice, and nothing is lost.
func TestClusterSlotsMove(t *testing.T) {
	for name, client := range clusterClients {
		if !long && name != "rueidis" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			inTime(t)
			c := redistest.StartCluster(t)
			s := &redisstore.Store{Client: client(t, c.Addrs()), Tag: ofTenant}
			const many = 1 << 40
			user, tenant, all, alone := ofWindow(t, "user", many), ofWindow(t, "tenant", many), ofAll(ofWindow(t, "all", many)), ofWindow(t, "alone", many)
			var ofStack, ofEverybody, ofAlone counts
			l := &load{stop: make(chan struct{})}
			used(t, s, tenant, "acme") // connects
			for i := range l.calls {
				l.group.Go(func() {
					for n := 0; l.rest(20 * time.Millisecond); n++ {
						charges := []limiter.Charge{user.Charge("acme/"+strconv.Itoa(n%20), 1), tenant.Charge("acme", 1), all.Charge("", 1)}
						if i%4 == 0 {
							charges = []limiter.Charge{alone.Charge("other", 1)}
						}
						start := time.Now()
						d, err := s.Take(context.Background(), charges...)
						took := time.Since(start)
						assert.NoError(t, err)
						assert.True(t, d.Allowed, "OnFailure is Open")
						l.calls[i] = append(l.calls[i], oneCall{start: start, took: took, err: d.Degraded})
						if i%4 == 0 {
							ofAlone.add(d)
						} else {
							ofStack.add(d.Each[1])
							ofEverybody.add(d.Each[2])
						}
					}
				})
				l.group.Go(func() {
					for start := time.Now(); l.rest(deadline); start = time.Now() {
						l.bare[i] = append(l.bare[i], time.Since(start))
					}
				})
			}
			time.Sleep(200 * time.Millisecond)
			for _, tag := range []string{"acme", "other", "polite:global"} {
				slot := c.Slot("{" + tag + "}")
				to := c.Nodes[0]
				if c.Owner(slot) == to {
					to = c.Nodes[1]
				}
				c.BeginMove(slot, to)
				time.Sleep(50 * time.Millisecond)
				for c.MoveKeys(slot, 1, to) > 0 {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(50 * time.Millisecond)
				c.EndMove(slot, to)
				assert.Same(t, to, c.Owner(slot))
			}
			ended := time.Now()
			time.Sleep(1300 * time.Millisecond)
			calls, bare := l.end()

			ofStack.exactly(t, "a stack", used(t, s, tenant, "acme"))
			sum := int64(0)
			for n := range 20 {
				sum += used(t, s, user, "acme/"+strconv.Itoa(n))
			}
			assert.Equal(t, used(t, s, tenant, "acme"), sum, "all or none")
			ofAlone.exactly(t, "one key", used(t, s, alone, "other"))
			ofEverybody.exactly(t, "everybody's", used(t, s, all, ""))

			slowest, bareSlowest := quantile(took(calls), 0.999), quantile(bare, 0.999)
			well, failed := 0, 0
			for _, c := range calls {
				if c.start.Sub(ended) > time.Second {
					well++
					if c.err != nil {
						failed++
					}
				}
			}
			t.Logf("p99.9 %v, of a bare timer %v", slowest, bareSlowest)
			require.Positive(t, well)
			if !redisstore.Raced {
				assert.LessOrEqual(t, slowest, max(bareSlowest, deadline)+slack)
				assert.LessOrEqual(t, failed, well/2, "from a second after on; a busy machine may be late")
			}
		})
	}
}
