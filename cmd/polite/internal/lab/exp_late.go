package lab

import (
	"container/heap"
	"context"
	"fmt"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/sim"
)

var late = Experiment{
	Name:  "late",
	Title: "Where a server says no",
	Teaches: "To refuse is work, too: as much as was done until then. This server's requests take 50 ms of its processors. " +
		"Refused at the door they cost next to nothing, and it goes on at capacity at ten times its load. Refused after " +
		"1 ms, when it is known who calls, a tenfold load costs a fifth of the server. Refused after 40 ms, when the " +
		"body is read and the database asked, it does nothing else any more at a quarter over its capacity. Put " +
		"the check before the work that it is to save.",
	Run: runLate,
}

const (
	lateCores   = 10
	lateWork    = 50 * ms // 200 requests a second
	lateFull    = 200.0
	lateTimeout = second
)

// Where the check stands.
var latePlaces = []struct {
	name string
	work int64 // that is done until then; negative: nobody is refused
}{
	{"at the door, 0.05 ms", ms / 20},
	{"after 1 ms", ms},
	{"after 40 ms", 40 * ms},
	{"never", -1},
}

// cores are processors that all requests share, as goroutines do: nobody waits
// in line, everybody gets slower.
type cores struct {
	sim    *sim.Sim
	n      int
	got    float64 // nanoseconds of work that one who was there from the beginning got
	at     int64
	jobs   shares
	change int // the number of the one that counts
}

type share struct {
	until float64 // of got
	done  func()
}

type shares []share

func (s shares) Len() int           { return len(s) }
func (s shares) Less(i, j int) bool { return s[i].until < s[j].until }
func (s shares) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *shares) Push(x any)        { *s = append(*s, x.(share)) }
func (s *shares) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// each is the part of a core that everybody gets.
func (c *cores) each() float64 {
	if len(c.jobs) <= c.n {
		return 1
	}
	return float64(c.n) / float64(len(c.jobs))
}

func (c *cores) advance() {
	c.got += float64(c.sim.Now()-c.at) * c.each()
	c.at = c.sim.Now()
}

// do works for so long.
func (c *cores) do(work int64, done func()) {
	c.advance()
	heap.Push(&c.jobs, share{c.got + float64(work), done})
	c.plan()
}

func (c *cores) plan() {
	if len(c.jobs) == 0 {
		return
	}
	c.change++
	change := c.change
	c.sim.After(int64((c.jobs[0].until-c.got)/c.each())+1, func() {
		if change != c.change {
			return
		}
		c.advance()
		for len(c.jobs) > 0 && c.jobs[0].until <= c.got {
			heap.Pop(&c.jobs).(share).done()
		}
		c.plan()
	})
}

// runLateAt is how many answers a second came in time.
func runLateAt(seed uint64, load float64, before int64) float64 {
	s := sim.New(seed)
	c := &cores{sim: s, n: lateCores}
	g := newGated(s, admission.Config{Limit: lateCores})
	var good perSecond
	s.Poisson(sim.PerSecond(lateFull*load/100), func() {
		came := s.Now()
		r := &request{refuse: func() {}}
		finish := func() {
			if s.Now()-came <= lateTimeout {
				good.add(s.Now())
			}
		}
		if before < 0 {
			c.do(lateWork, finish)
			return
		}
		r.begin = func() {
			c.do(lateWork-before, func() {
				g.leave(r)
				finish()
			})
		}
		c.do(before, func() { g.arrive(r) })
	})
	s.Run(30 * second)
	return good.mean(10, 30)
}

func runLate(_ context.Context, o Options) (*Result, error) {
	result := &Result{}
	loads := []float64{50, 75, 100, 110, 125, 150, 200, 300, 500, 700, 1000}
	table := Table{
		Title:   "10 cores, 50 ms of work a request, callers wait 1 s at most: answers in time, % of capacity",
		Columns: []string{"where the check stands"},
	}
	shown := []float64{100, 110, 125, 150, 200, 500, 1000}
	for _, load := range shown {
		table.Columns = append(table.Columns, fmt.Sprintf("load %.0f %%", load))
	}
	picture := draw.Picture{
		Name:   "late",
		Title:  "Answers in time, by how much work is done before a request is refused",
		Says:   "What is refused early costs nothing. What is refused late costs what the others needed.",
		X:      draw.Axis{Label: "load, % of capacity", Log: true, Min: 50, Max: 1000},
		Y:      draw.Axis{Label: "answers within 1 s, per second", Min: 0, Max: 220},
		Limits: []draw.Limit{{Name: "capacity", Y: lateFull}},
	}
	for i, place := range latePlaces {
		at := map[float64]float64{}
		series := draw.Series{Name: place.name}
		for j, good := range abreast(len(loads), func(j int) float64 { return runLateAt(o.Seed, loads[j], place.work) }) {
			at[loads[j]] = good
			series.Points = append(series.Points, draw.Point{X: loads[j], Y: good})
		}
		picture.Series = append(picture.Series, series)
		cells := []any{place.name}
		for _, load := range shown {
			cells = append(cells, 100*at[load]/lateFull)
		}
		table.Add(cells...)
		name := fmt.Sprintf("late, refused %s, ", place.name)
		switch i {
		case 0:
			result.Figures = append(result.Figures, atLeast(name+"1,000 % load: answers in time", 100*at[1000]/lateFull, 95, "% of capacity"))
		case 1:
			result.Figures = append(result.Figures, between(name+"1,000 % load: answers in time", 100*at[1000]/lateFull, 70, 85, "% of capacity"))
		case 2:
			result.Figures = append(result.Figures, atMost(name+"150 % load: answers in time", 100*at[150]/lateFull, 5, "% of capacity"))
		}
	}
	result.Tables = append(result.Tables, table)
	result.Pictures = append(result.Pictures, picture)
	return result, nil
}
