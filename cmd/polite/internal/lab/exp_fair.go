package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/sim"
)

var fair = Experiment{
	Name:  "fair",
	Title: "One tenant asks for five times what the server can do",
	Teaches: "A queue that does not look who comes is shared by who asks most: the small ones wait behind the large one and " +
		"are refused with it, although together they ask for less than half of the server. Refusing by lot takes the same share of " +
		"everybody, which is fair to requests and not to tenants. A fixed share for each is safe, and " +
		"leaves unused what others do not want. Queues that are shared by hash keep the large one to some of them, and the small " +
		"ones have others nearly always. Taking turns gives each what it asks for up to an equal share, and " +
		"all that is left to the one that wants more; and when the queue is full, who fills it loses.",
	Run: runFair,
}

const (
	fairWorkers = 10
	fairService = 10 * time.Millisecond // 1,000 requests a second
	fairQueue   = 100
	fairFrom    = 10 // seconds
	fairTo      = 90
)

// fairMix is who asks for how much, a second.
type fairMix struct {
	name  string
	large float64
	small int
	each  float64
}

var (
	hundredfold = fairMix{"one of ten asks for 100 times as much", 5000, 9, 50}
	beside      = fairMix{"30 small ones beside a large one", 1700, 30, 10}
)

func (m fairMix) total() float64 { return m.large + float64(m.small)*m.each }

// What may stand at the door.
var fairDoors = []struct {
	name string
	new  func(s *sim.Sim, m fairMix) door
}{
	{"one queue of 100", func(s *sim.Sim, _ fairMix) door {
		return &line{sim: s, limit: fairWorkers, bound: fairQueue}
	}},
	{"refusal by lot", func(s *sim.Sim, m fairMix) door {
		return &random{s, min(1, fairWorkers/fairService.Seconds()/m.total()), &line{sim: s, limit: fairWorkers, bound: fairQueue}}
	}},
	{"a fixed share each", func(s *sim.Sim, m fairMix) door {
		return newSplit(s, fairWorkers/fairService.Seconds()/float64(m.small+1))
	}},
	{"8 of 64 queues, by hash", func(s *sim.Sim, _ fairMix) door {
		return &shuffled{sim: s, limit: fairWorkers, bound: fairQueue, hands: map[string][]int{}}
	}},
	{"turns (ours)", func(s *sim.Sim, _ fairMix) door {
		return newGated(s, admission.Config{Limit: fairWorkers, Queue: fairQueue})
	}},
}

const fairOurs = 4

// fairRun is what each tenant got. The first is the large one.
type fairRun struct {
	names        []string
	asked, began []float64
	waits        []int64 // of the small ones, until work began
}

func (r *fairRun) tenant(name string) int {
	r.names = append(r.names, name)
	r.asked = append(r.asked, 0)
	r.began = append(r.began, 0)
	return len(r.names) - 1
}

// served is the share of what a tenant asked for, in percent.
func (r *fairRun) served(i int) float64 { return 100 * r.began[i] / r.asked[i] }

// small is the same of all but the first together, and the least of them.
func (r *fairRun) small() (mean, least float64) {
	asked, began := 0.0, 0.0
	least = 100
	for i := range r.asked[1:] {
		asked += r.asked[i+1]
		began += r.began[i+1]
		least = min(least, r.served(i+1))
	}
	return 100 * began / asked, least
}

// caller calls for one tenant. What it begins from one second to another counts.
func (r *fairRun) caller(s *sim.Sim, to server, i, from, until int) *caller {
	return &caller{sim: s, server: to, over: func(a *attempt, ok bool) {
		if a.call < int64(from)*second || a.call >= int64(until)*second {
			return
		}
		if r.asked[i]++; ok {
			r.began[i]++
			if i > 0 {
				r.waits = append(r.waits, a.started-a.arrived)
			}
		}
	}}
}

func (r *fairRun) p99() float64 { return float64(sim.Percentile(r.waits, 0.99)) / float64(ms) }

func runTenants(seed uint64, m fairMix, at func(*sim.Sim, fairMix) door) *fairRun {
	s := sim.New(seed)
	server := &guarded{at(s, m), &pool{sim: s, workers: fairWorkers, service: exponential(s, fairService)}}
	run := new(fairRun)
	ask := func(name string, rate float64) {
		i := run.tenant(name)
		c := run.caller(s, server, i, fairFrom, fairTo)
		c.tenant, c.known = name, true
		s.Poisson(sim.PerSecond(rate), c.call)
	}
	ask("large", m.large)
	for i := range m.small {
		ask("small "+strconv.Itoa(i+1), m.each)
	}
	s.Run((fairTo + 1) * second)
	return run
}

const (
	strangers     = 200_000 // tenants that nobody knows
	strangersRate = 10_000  // requests a second, of all of them
)

// runStrangers has ten tenants that are known, at 50 requests a second each, beside
// the strangers.
func runStrangers(seed uint64) (known, wait, others float64) {
	s := sim.New(seed)
	server := &guarded{
		newGated(s, admission.Config{Limit: fairWorkers, Queue: fairQueue}),
		&pool{sim: s, workers: fairWorkers, service: exponential(s, fairService)},
	}
	run := new(fairRun)
	run.tenant("the strangers")
	run.tenant("the known")
	unknown := run.caller(s, server, 0, 5, 20)
	s.Poisson(sim.PerSecond(strangersRate), func() {
		unknown.tenant = strconv.Itoa(s.Rand.IntN(strangers))
		unknown.call()
	})
	for i := range 10 {
		c := run.caller(s, server, 1, 5, 20)
		c.tenant, c.known = "known "+strconv.Itoa(i), true
		s.Poisson(sim.PerSecond(50), c.call)
	}
	s.Run(21 * second)
	return run.served(1), run.p99(), run.began[0] / 15
}

// strangersMemory is how many bytes a Gate holds after every one of the strangers was
// there, while the queue is full.
func strangersMemory(seed uint64) float64 {
	random := rand.New(rand.NewPCG(seed, 1))
	tickets := make([]admission.Ticket, strangers)
	names := make([]string, strangers)
	for i := range names {
		names[i] = "tenant-" + strconv.Itoa(i)
	}
	random.Shuffle(strangers, func(i, j int) { names[i], names[j] = names[j], names[i] })
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	g := admission.New(admission.Config{Limit: fairWorkers, Queue: fairQueue}, seed)
	var inside queue[*admission.Ticket]
	settle := func(now int64) {
		for {
			t, v := g.Next(now)
			if t == nil {
				return
			}
			if v == admission.Admitted {
				inside.push(t)
			}
		}
	}
	for i := range tickets {
		now := int64(i) * int64(time.Second) / strangersRate
		t := &tickets[i]
		t.Tenant = names[i]
		if g.Arrive(t, now) == admission.Admitted {
			inside.push(t)
		}
		settle(now)
		if i%10 == 9 { // a thousand a second are done
			g.Leave(inside.oldest(), now, true)
			settle(now)
		}
	}
	grown := heap() - before
	runtime.KeepAlive(tickets)
	runtime.KeepAlive(names)
	runtime.KeepAlive(g)
	return grown
}

// fairFigures are what must hold of ours.
func fairFigures(seed uint64) (figures []Figure) {
	for _, m := range []fairMix{hundredfold, beside} {
		run := runTenants(seed, m, fairDoors[fairOurs].new)
		_, least := run.small()
		figures = append(figures,
			atLeast(fmt.Sprintf("fair, %s: the small ones are served", m.name), least, 98, "% each"),
			atMost(fmt.Sprintf("fair, %s: 99 %% of the small ones wait", m.name), run.p99(), 15, "ms"))
	}
	known, wait, _ := runStrangers(seed)
	return append(figures,
		atLeast("fair, 200,000 unknown tenants: the known ones are served", known, 98, "%"),
		atMost("fair, 200,000 unknown tenants: 99 % of the known ones wait", wait, 15, "ms"))
}

// memoryFigure is apart, for nothing else may run meanwhile.
func memoryFigure(seed uint64) Figure {
	kib := float64(int(strangersMemory(seed)/1024/16+1)) * 16 // as exact as it is the same each time
	return atMost("fair, 200,000 unknown tenants: memory", kib/1024, 1, "MiB")
}

func runFair(_ context.Context, o Options) (*Result, error) {
	result := &Result{Figures: append(fairFigures(o.Seed), memoryFigure(o.Seed))}
	for _, m := range []fairMix{hundredfold, beside} {
		table := Table{
			Title:   fmt.Sprintf("%s: %.0f a second, and %d times %.0f; the server does 1,000", m.name, m.large, m.small, m.each),
			Columns: []string{"at the door", "small: served, %", "the least of them, %", "99 % wait, ms", "large: served, per s", "all, per s"},
		}
		picture := draw.Picture{
			Name:   "fair",
			Title:  "How much of what it asked for each tenant got",
			Says:   "The large tenant asks for 5,000 a second, nine small ones for 50 each; the server does 1,000. Taking turns serves the small ones in full, and the large one with all that is left.",
			Y:      draw.Axis{Label: "served, % of what was asked", Min: 0, Max: 110},
			Limits: []draw.Limit{{Name: "all of it", Y: 100}},
		}
		for i, run := range abreast(len(fairDoors), func(i int) *fairRun { return runTenants(o.Seed, m, fairDoors[i].new) }) {
			small, least := run.small()
			sum := 0.0
			for _, n := range run.began {
				sum += n
			}
			table.Add(fairDoors[i].name, small, least, run.p99(), run.began[0]/(fairTo-fairFrom), sum/(fairTo-fairFrom))
			bars := draw.Series{Name: fairDoors[i].name, Kind: draw.Bars, Plain: true}
			for j := range run.names {
				bars.Points = append(bars.Points, draw.Point{X: float64(j), Y: run.served(j)})
			}
			picture.Series = append(picture.Series, bars)
			picture.X.Names = run.names
			if i == 1 && m == beside {
				result.Figures = append(result.Figures, between("refusal by lot, 30 small beside a large: the small ones are served", small, 45, 55, "%"))
			}
		}
		result.Tables = append(result.Tables, table)
		if m == hundredfold {
			result.Pictures = append(result.Pictures, picture)
		}
	}
	known, wait, others := runStrangers(o.Seed)
	table := Table{
		Title:   "200,000 tenants that nobody knows, 10,000 requests a second together, beside ten known ones at 50 a second each",
		Columns: []string{"at the door", "known: served, %", "99 % wait, ms", "strangers: served, per s"},
	}
	table.Add("turns (ours)", known, wait, others)
	result.Tables = append(result.Tables, table)
	return result, nil
}
