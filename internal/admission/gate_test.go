package admission

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// model is a gate and what must be true of it.
type model struct {
	*testing.T
	gate    *Gate
	config  Config
	random  *rand.Rand
	now     int64
	queue   []*Ticket // in the order of arrival
	inside  []*Ticket
	nested  []*Ticket
	split   bool // a tenant may be of the crowd now and have its own share then
	verdict [Gone + 1]int
}

// who is whose queue a ticket is in: a name that was proven is another.
func who(t *Ticket) string {
	if t.Known && t.Tenant != "" {
		return t.Tenant + " proven"
	}
	return t.Tenant
}

// must is require.True for loops.
func (m *model) must(ok bool, why string) {
	if !ok {
		m.Helper()
		m.Fatal(why)
	}
}

func (m *model) arrive() {
	t := &Ticket{
		Tenant:   []string{"", "a", "b", "c", "d"}[m.random.IntN(5)],
		Known:    m.random.IntN(3) == 0,
		Class:    Class(m.random.IntN(6) - 2),
		Nested:   m.random.IntN(40) == 0,
		Patient:  m.random.IntN(20) == 0,
		Deadline: m.now + m.random.Int64N(300_000),
	}
	t.Known = t.Known || !m.split && t.Tenant == "a"
	if t.Tenant == "d" {
		t.Weight = 3
	}
	if m.random.IntN(2) == 0 {
		t.Deadline = 0
	}
	waited, free := len(m.queue), m.gate.InFlight() < m.gate.Limit()
	v := m.gate.Arrive(t, m.now)
	m.verdict[v]++
	switch v {
	case Admitted:
		if t.Nested {
			m.nested = append(m.nested, t)
			break
		}
		require.True(m, free && waited == 0, "admitted past others or the limit")
		m.inside = append(m.inside, t)
	case Queued:
		require.False(m, free && waited == 0, "queued before a free place")
		m.queue = append(m.queue, t)
	case Late:
		require.NotZero(m, t.due|t.Deadline, "late for nothing")
	case Full:
		if t.number == 0 { // it was not shown to the queue: that is too slow, or none
			require.True(m, m.config.Queue < 0 || t.due == m.now+m.config.MaxWait)
			break
		}
		m.loses(append(slices.Clone(m.queue), t), t)
	default:
		m.Fatal("arrive says", v)
	}
	m.drain()
}

// drain asks whom to tell, and checks each.
func (m *model) drain() {
	for {
		t, v := m.gate.Next(m.now)
		if t == nil {
			break
		}
		m.verdict[v]++
		i := slices.Index(m.queue, t)
		require.GreaterOrEqual(m, i, 0, "%v: it does not wait", v)
		switch v {
		case Admitted:
			m.first(t)
			m.inside = append(m.inside, t)
			require.LessOrEqual(m, len(m.inside), m.gate.Limit())
		case Pushed:
			m.loses(m.queue, t)
		case Expired:
			tooOld := !t.Patient && m.now >= t.arrived+m.config.MaxWait
			margin := m.gate.service.typical(m.now).tail
			require.True(m, tooOld || t.Deadline != 0 && (m.now >= t.due || m.now >= t.Deadline-margin), "expired too early")
		default:
			m.Fatal("next says", v)
		}
		m.queue = slices.Delete(m.queue, i, i+1)
	}
	impatient := 0
	for _, t := range m.queue {
		if !t.Patient {
			impatient++
		}
		m.must(t.due > m.now, "it should have expired")
		m.must(t.due >= m.gate.Due(), "due too late")
	}
	require.LessOrEqual(m, impatient, m.gate.queue())
	require.Equal(m, len(m.queue), m.gate.Waiting())
	require.Equal(m, len(m.inside), m.gate.InFlight())
	if len(m.queue) > 0 {
		require.GreaterOrEqual(m, m.gate.InFlight(), m.gate.Limit(), "a free place and somebody who waits")
	}
}

// first checks that it was t's turn: of the highest class, and by the order
// among those of its tenant.
func (m *model) first(t *Ticket) {
	for _, other := range m.queue {
		m.must(other.lane() >= t.lane(), "a higher class waits")
		if m.split || other == t || other.lane() != t.lane() || who(other) != who(t) || other.Patient != t.Patient {
			continue
		}
		if m.config.Order == Wine || t.Patient {
			m.must(other.number > t.number, "an older one waits")
		} else {
			m.must(other.number < t.number, "a newer one waits")
		}
	}
}

// loses checks that t was the one to drop: of the lowest class, of the tenant
// that has most waiting for its weight, by the order.
func (m *model) loses(queue []*Ticket, t *Ticket) {
	require.False(m, t.Patient)
	waits := map[string]int{}
	for _, other := range queue {
		if other.Patient {
			continue
		}
		m.must(other.lane() <= t.lane(), "a lower class waits")
		if other.lane() == t.lane() {
			waits[who(other)]++
		}
	}
	if m.split {
		return
	}
	for tenant, n := range waits {
		mine, theirs := 1, 1
		if t.Tenant == "d" {
			mine = 3
		}
		if strings.HasPrefix(tenant, "d") {
			theirs = 3
		}
		require.GreaterOrEqual(m, waits[who(t)]*theirs, n*mine, "%q has more waiting than %q", tenant, who(t))
	}
	for _, other := range queue {
		if other == t || other.Patient || other.lane() != t.lane() || who(other) != who(t) {
			continue
		}
		if m.config.Order == Wine {
			m.must(other.number < t.number, "a newer one waits")
		} else {
			m.must(other.number > t.number, "an older one waits")
		}
	}
}

func (m *model) step() {
	m.now += m.random.Int64N(3_000)
	if due := m.gate.Due(); due <= m.now {
		m.drain()
	}
	switch p := m.random.IntN(100); {
	case p < 50:
		m.arrive()
	case p < 80 && len(m.inside) > 0:
		i := m.random.IntN(len(m.inside))
		t := m.inside[i]
		m.inside = slices.Delete(m.inside, i, i+1)
		require.True(m, m.gate.Leave(t, m.now, m.random.IntN(10) > 0))
		require.False(m, m.gate.Leave(t, m.now, true), "left twice")
		require.False(m, m.gate.Cancel(t, m.now), "cancelled after it left")
	case p < 85 && len(m.nested) > 0:
		t := m.nested[0]
		m.nested = m.nested[1:]
		require.True(m, m.gate.Leave(t, m.now, true))
		require.False(m, m.gate.Leave(t, m.now, true), "left twice")
	case p < 90 && len(m.queue) > 0:
		i := m.random.IntN(len(m.queue))
		t := m.queue[i]
		require.False(m, m.gate.Leave(t, m.now, true), "left while waiting")
		require.Equal(m, Queued, m.gate.Arrive(t, m.now), "arrived twice")
		m.queue = slices.Delete(m.queue, i, i+1)
		require.True(m, m.gate.Cancel(t, m.now))
		require.False(m, m.gate.Cancel(t, m.now), "cancelled twice")
		m.verdict[Gone]++
	case p < 92:
		m.gate.SetLimit(m.random.IntN(12) - 1)
	}
	m.drain()
}

// TestEveryTicketEndsOnce plays random events and checks every answer.
func TestEveryTicketEndsOnce(t *testing.T) {
	for i, c := range []Config{
		{Limit: 5, Queue: 12, MaxWait: 150_000},
		{Limit: 5, Queue: 12, MaxWait: 150_000, Order: Milk},
		{Limit: 5, MaxWait: 400_000, Order: Milk},
		{Limit: 5, Queue: 12, MaxWait: 150_000, MaxTenants: 1},
		{Limit: 5, Queue: 12, MaxWait: 300_000, MaxTenants: 2, Order: Milk},
		{Limit: 5, Queue: -1, MaxWait: 150_000},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			m := &model{T: t, config: c, random: rand.New(rand.NewPCG(uint64(i), 1)), gate: New(c, 1), split: c.MaxTenants > 0}
			for range 10_000 {
				m.step()
			}
			for v, n := range m.verdict {
				if c.Queue >= 0 {
					assert.Greater(t, n, 10, "%v: hardly played", Verdict(v))
				}
			}
			for len(m.inside) > 0 {
				require.True(t, m.gate.Leave(m.inside[0], m.now, true))
				m.inside = m.inside[1:]
				m.gate.SetLimit(0)
			}
			for _, w := range m.queue {
				require.True(t, m.gate.Cancel(w, m.now))
			}
			assert.Zero(t, m.gate.InFlight())
			assert.Zero(t, m.gate.Waiting())
			assert.Zero(t, m.gate.patient)
			assert.Equal(t, int64(math.MaxInt64), m.gate.Due())
			for i := range m.gate.lines {
				for _, l := range []*line{&m.gate.lines[i], &m.gate.crowds[i]} {
					assert.Zero(t, l.n)
					assert.Zero(t, l.weight)
					assert.Zero(t, l.resting)
					assert.Zero(t, l.early)
					assert.Empty(t, l.flows)
					assert.Empty(t, l.longest)
					assert.Empty(t, l.turns)
				}
			}
		})
	}
}
