package cubic

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/politehttp/polite/internal/provider"
)

// sliding knows every call of the last second.
type sliding struct {
	provider.Quota
	log []int64
}

func (p *sliding) Admit(now int64) bool {
	for len(p.log) > 0 && p.log[0] <= now-1e9 {
		p.log = p.log[1:]
	}
	if float64(len(p.log))+1 > p.At(now) {
		return false
	}
	p.log = append(p.log, now)
	return true
}

// shut refuses everything for a while.
type shut struct {
	provider.Provider
	from, to time.Duration
}

func (p *shut) Admit(now int64) bool {
	return (now < int64(p.from) || now >= int64(p.to)) && p.Provider.Admit(now)
}

// model runs workers against a provider in virtual time, with a bucket as the
// pacer has it between them.
type model struct {
	workers  int
	jobs     int // all workers together; zero: no end
	rtt      time.Duration
	attempts int           // per call; zero: 1
	base     time.Duration // of the full jitter before a retry; zero: none
	think    time.Duration // between one worker's calls
	lose     float64       // share of calls that end without an answer
	units    int64         // of a call; zero: 1
	end      time.Duration
	seed     uint64
	provider provider.Provider

	l       Learner
	rng     *rand.Rand
	now     int64
	events  events
	queue   []func()
	level   float64
	filled  int64
	timer   int // the number of the one that counts
	made    int // events so far
	done    int
	failed  int
	log     []provider.Decision
	elapsed time.Duration
}

type event struct {
	at int64
	no int
	do func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].no < e[j].no
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

func (m *model) in(d time.Duration, do func()) {
	m.made++
	heap.Push(&m.events, event{m.now + int64(d), m.made, do})
}

// wire is half a round trip, give or take a fifth.
func (m *model) wire() time.Duration {
	return time.Duration(float64(m.rtt) / 2 * (0.8 + 0.4*m.rng.Float64()))
}

func (m *model) wait(leave func()) {
	m.queue = append(m.queue, leave)
	m.grant()
}

func (m *model) grant() {
	for len(m.queue) > 0 {
		if m.l.On() {
			n := float64(max(1, m.units))
			burst := max(n, m.l.Rate()*0.005)
			m.level = min(burst, m.level+m.l.Rate()*float64(m.now-m.filled)/1e9)
			m.filled = m.now
			if m.level < n-0.000001 {
				m.timer++
				timer := m.timer
				m.in(time.Duration((n-m.level)/m.l.Rate()*1e9)+1, func() {
					if timer == m.timer {
						m.grant()
					}
				})
				return
			}
			m.level -= n
			m.l.Sent(m.now, int64(n))
		} else {
			m.level, m.filled = 0, m.now
		}
		leave := m.queue[0]
		m.queue = m.queue[1:]
		leave()
	}
}

func (m *model) run() *model {
	m.rng = rand.New(rand.NewPCG(m.seed, 7))
	started := 0
	var worker func()
	worker = func() {
		if m.jobs > 0 && started == m.jobs {
			return
		}
		started++
		n := 0
		var try func()
		finish := func(ok bool) {
			if m.done++; !ok {
				m.failed++
			}
			m.elapsed = time.Duration(m.now)
			m.in(m.think, worker)
		}
		leave := func() {
			n++
			m.in(m.wire(), func() {
				ok := m.provider.Admit(m.now)
				m.log = append(m.log, provider.Decision{At: m.now, OK: ok})
				m.in(m.wire(), func() {
					if m.rng.Float64() >= m.lose {
						m.l.Answer(m.now, !ok)
					}
					m.grant()
					switch {
					case ok:
						finish(true)
					case n >= m.attempts:
						finish(false)
					default:
						backoff := min(10*time.Second, m.base<<(n-1))
						m.in(time.Duration(m.rng.Float64()*float64(backoff)), try)
					}
				})
			})
		}
		try = func() { m.wait(leave) }
		try()
	}
	for range m.workers {
		m.in(time.Duration(m.rng.Int64N(int64(time.Millisecond))), worker)
	}
	for len(m.events) > 0 {
		e := heap.Pop(&m.events).(event)
		if m.end > 0 && e.at > int64(m.end) {
			break
		}
		m.now = e.at
		e.do()
	}
	return m
}

// between counts what the provider decided in [from, to).
func (m *model) between(from, to time.Duration) (ok, refused float64) {
	return provider.Between(m.log, from, to)
}
