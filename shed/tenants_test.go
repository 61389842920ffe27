package shed_test

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/shed"
)

// askers send to a gate for so long, one a path: how often in a second, and with
// which header fields.
type asker struct {
	path      string
	perSecond int // divides 1,000 or is a multiple of it
	fields    []string
}

// askAll sends for all of them, by the millisecond.
func askAll(h http.Handler, seconds int, all ...asker) map[string]tally {
	var list [1000][]asker
	for _, a := range all {
		for i := range a.perSecond {
			at := i * 1000 / a.perSecond
			list[at] = append(list[at], a)
		}
	}
	var turns []asker
	for _, l := range list {
		turns = append(turns, l...)
	}
	return offer(h, seconds*len(turns), time.Second/time.Duration(len(turns)), func(i int) *http.Request {
		a := turns[i%len(turns)]
		return request(a.path, a.fields...)
	})
}

// TestProvenNameIsItsOwners: who calls himself like a customer, and cannot prove
// it, has his own share and not a part of the customer's.
func TestProvenNameIsItsOwners(t *testing.T) {
	for _, order := range []shed.Order{shed.Wine, shed.Milk} {
		synctest.Test(t, func(t *testing.T) {
			overShare := 0
			g := &shed.Gate{
				Limit: 10, Order: order, Tenant: byHeader("Tenant"),
				Known: func(r *http.Request) bool { return r.Header.Get("Key") != "" },
				Hooks: &shed.Hooks{Refused: func(e shed.Event) {
					if e.Request.URL.Path == "/acme" && e.Reason == shed.OverShare {
						overShare++
					}
				}},
			}
			got := askAll(g.Handler(work(10*time.Millisecond)), 4,
				asker{"/forged", 4999, []string{"Tenant", "acme"}}, // in step with nothing
				asker{"/acme", 97, []string{"Tenant", "acme", "Key", "1"}},
				asker{"/beta", 97, []string{"Tenant", "beta", "Key", "2"}})
			assert.Equal(t, tally{388, 388}, got["/acme"])
			assert.Equal(t, tally{388, 388}, got["/beta"])
			assert.Greater(t, got["/forged"].served, 3000, "of what is left")
			assert.Zero(t, overShare)
		})
	}
}

// TestWeightsOfAnySize: only what they are of each other counts, and those of
// equal weight are served in turns.
func TestWeightsOfAnySize(t *testing.T) {
	for _, weight := range fewer([]int{1, 100, 1000, 1 << 20}) {
		synctest.Test(t, func(t *testing.T) {
			g := &shed.Gate{
				Limit: 10, Tenant: byHeader("Tenant"), Known: yes,
				Weight: func(*http.Request) int { return weight },
			}
			h := g.Handler(work(20 * time.Millisecond)) // 500 a second
			for range 5 {
				got := askAll(h, 1,
					asker{"/a", 1000, []string{"Tenant", "a"}},
					asker{"/b", 1000, []string{"Tenant", "b"}},
					asker{"/small", 20, []string{"Tenant", "small"}})
				assert.InDelta(t, got["/a"].served, got["/b"].served, 6, "weight %d", weight)
				assert.Equal(t, 20, got["/small"].served, "weight %d", weight)
			}
		})
	}
}

// TestWeightThatFalls counts from then on.
func TestWeightThatFalls(t *testing.T) {
	for _, was := range fewer([]int{1, 1000, 1 << 16}) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			g := &shed.Gate{
				Limit: 10, Tenant: byHeader("Tenant"), Known: yes,
				Weight: func(r *http.Request) int {
					if r.URL.Path == "/a" && time.Since(began) < 100*time.Millisecond {
						return was
					}
					return 1
				},
			}
			h := g.Handler(work(20 * time.Millisecond))
			got := askAll(h, 10,
				asker{"/a", 1000, []string{"Tenant", "a"}},
				asker{"/b", 100, []string{"Tenant", "b"}})
			assert.GreaterOrEqual(t, got["/b"].served, 980, "was %d", was)
		})
	}
}

// TestStreamsThatAreRefused: keep nobody away who asks for something else.
func TestStreamsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, Queue: -1, MaxLongLived: 1}
		h := g.Handler(work(time.Hour))
		stream := []string{"Accept", "text/event-stream"}
		first := send(h, "/", stream...)
		for range 60 {
			for range 10 {
				again := send(h, "/", stream...)
				assert.Equal(t, http.StatusServiceUnavailable, again.Code)
			}
			time.Sleep(time.Second)
		}
		again := send(h, "/", stream...)
		after, err := strconv.Atoi(again.Header().Get("Retry-After"))
		assert.NoError(t, err)
		assert.GreaterOrEqual(t, after, 16)
		inside := send(h, "/")
		assert.LessOrEqual(t, send(h, "/").Header().Get("Retry-After"), "2")
		await(first, inside)
	})
}

// TestOnlyGetLasts: a request that changes something holds a slot, whatever it
// accepts.
func TestOnlyGetLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, Queue: -1}
		h := g.Handler(work(time.Hour))
		for _, field := range [][2]string{{"Accept", "text/event-stream"}, {"Upgrade", "websocket"}} {
			r := request("/", field[0], field[1])
			r.Method = http.MethodPost
			first, second := start(h, r), start(h, r)
			synctest.Wait()
			assert.Equal(t, 1, g.Stats().InFlight, field[0])
			assert.Zero(t, g.Stats().LongLived, field[0])
			await(first, second)
		}
	})
}
