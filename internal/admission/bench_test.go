package admission

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// BenchmarkUncontended is one that comes and goes while there is room.
func BenchmarkUncontended(b *testing.B) {
	g := New(Config{Limit: 100}, 1)
	t := &Ticket{}
	b.ReportAllocs()
	var now int64
	for b.Loop() {
		now += 1000
		g.Arrive(t, now)
		g.Next(now)
		g.Leave(t, now+500, true)
		g.Next(now)
	}
}

// BenchmarkDeadline is the same with a deadline.
func BenchmarkDeadline(b *testing.B) {
	g := New(Config{Limit: 100}, 1)
	t := &Ticket{}
	b.ReportAllocs()
	var now int64
	for b.Loop() {
		now += 1000
		t.Deadline = now + int64(time.Second)
		g.Arrive(t, now)
		g.Next(now)
		g.Leave(t, now+500, true)
		g.Next(now)
	}
}

// BenchmarkQueued is one that comes, waits behind others and is let in, among so
// many tenants.
func BenchmarkQueued(b *testing.B) {
	for _, tenants := range []int{0, 100, 100_000} {
		b.Run(strconv.Itoa(tenants), func(b *testing.B) {
			g := New(Config{Limit: 1, Queue: 256, MaxWait: -1}, 1)
			tickets := make([]*Ticket, 1<<17)
			for i := range tickets {
				tickets[i] = &Ticket{}
				if tenants > 0 {
					tickets[i].Tenant = strconv.Itoa(i % tenants)
				}
			}
			running, n := &Ticket{}, 0
			var now int64
			g.Arrive(running, now)
			for range 200 {
				g.Arrive(tickets[n], now)
				n++
			}
			b.ReportAllocs()
			for b.Loop() {
				now += 1000
				g.Arrive(tickets[n%len(tickets)], now)
				n++
				g.Leave(running, now, true)
				running, _ = g.Next(now)
				g.Next(now)
			}
		})
	}
}

// BenchmarkNow is what a reading of the clock costs here.
func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		_ = time.Now()
	}
}

func TestUncontendedAllocatesNothing(t *testing.T) {
	g := New(Config{Limit: 1}, 1)
	k := &Ticket{Tenant: "a"}
	var now int64
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		now += millisecond
		g.Arrive(k, now)
		g.Leave(k, now, true)
		g.Next(now)
	}))
	g.Arrive(k, now)
	waits := &Ticket{Tenant: "b", Deadline: now + 1e15}
	assert.Zero(t, testing.AllocsPerRun(100, func() { // and once there was a queue, nothing for a place in it
		now += millisecond
		g.Arrive(waits, now)
		g.Leave(k, now, true)
		g.Next(now)
		k, waits = waits, k
		waits.Deadline = now + 1e15
	}))
}
