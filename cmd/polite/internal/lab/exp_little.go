package lab

import (
	"context"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/internal/sim"
)

var little = Experiment{
	Name:  "little",
	Title: "A limit of calls a second is no limit of calls in flight",
	Teaches: "Calls in flight = calls a second × seconds a call takes (Little's law). Under a limit of 120 a second a " +
		"server that slows down from half a second to one has 120 calls in flight in place of 60: memory, connections " +
		"and locks for twice as many, just when it is slow. A limit of what is in flight keeps that, and lets the " +
		"rate fall as calls take longer: 30 in flight at 0.25 s are 120 a second, at 1 s they are 30. A rate limit " +
		"is for what is agreed with a caller; what is in flight is what a server can bear.",
	Run: runLittle,
}

const (
	littleSlow  = 30 * second
	littleUntil = 60 * second
)

// served is how many calls were in flight after each change, and when calls were
// admitted.
type served struct {
	inFlight []draw.Point
	admitted []int64
}

// serving offers calls to what admits them, and serves those that it does.
func serving(seed uint64, offered float64, takes func(now int64) int64, admit func(now int64) bool, left func(now int64)) served {
	var r served
	s := sim.New(seed)
	n := 0
	change := func(by int) {
		n += by
		r.inFlight = append(r.inFlight, draw.Point{X: seconds(s.Now()), Y: float64(n)})
	}
	s.Poisson(sim.PerSecond(offered), func() {
		if !admit(s.Now()) {
			return
		}
		r.admitted = append(r.admitted, s.Now())
		change(1)
		s.After(takes(s.Now()), func() {
			change(-1)
			left(s.Now())
		})
	})
	s.Run(littleUntil)
	return r
}

// mean is the mean number in flight between two times.
func (r *served) mean(from, to int64) float64 {
	sum, last, at := 0.0, 0.0, seconds(from)
	for _, p := range r.inFlight {
		if p.X > at {
			until := min(p.X, seconds(to))
			sum += last * max(until-at, 0)
			at = max(at, until)
		}
		last = p.Y
	}
	sum += last * (seconds(to) - at)
	return sum / seconds(to-from)
}

// rate is how many were admitted a second between two times.
func (r *served) rate(from, to int64) float64 {
	n := 0
	for _, at := range r.admitted {
		if at >= from && at < to {
			n++
		}
	}
	return float64(n) / seconds(to-from)
}

// underRate is a limit of 120 calls a second.
func underRate(seed uint64, offered float64, takes func(int64) int64) served {
	bucket := key{rule: must(rule.NewBucket(rule.TokenBucket, 120, second, 12))}
	return serving(seed, offered, takes, func(now int64) bool { return bucket.take(now).Allowed() }, func(int64) {})
}

// underGate is a limit of how many are in flight.
func underGate(seed uint64, offered float64, limit int, takes func(int64) int64) served {
	gate := admission.New(admission.Config{Limit: limit, Queue: -1}, seed)
	var inside []*admission.Ticket // all take the same time, so the first in leaves first
	admit := func(now int64) bool {
		t := new(admission.Ticket)
		if gate.Arrive(t, now) != admission.Admitted {
			return false
		}
		inside = append(inside, t)
		return true
	}
	return serving(seed, offered, takes, admit, func(now int64) {
		gate.Leave(inside[0], now, true)
		inside = inside[1:]
	})
}

func runLittle(_ context.Context, o Options) (*Result, error) {
	r := &Result{}
	littleRate(r, o.Seed)
	littleGate(r, o.Seed)
	return r, nil
}

func littleRate(r *Result, seed uint64) {
	slows := func(now int64) int64 {
		if now < littleSlow {
			return second / 2
		}
		return second
	}
	table := Table{
		Title:   "200 calls a second are offered; from 30 s on a call takes 1 s in place of 0.5 s.",
		Columns: []string{"limit", "in flight before", "in flight after", "a second before", "a second after"},
	}
	rate, gate := underRate(seed, 200, slows), underGate(seed, 200, 60, slows)
	before := func(s *served) (float64, float64) {
		return s.mean(10*second, littleSlow), s.rate(10*second, littleSlow)
	}
	after := func(s *served) (float64, float64) {
		return s.mean(40*second, littleUntil), s.rate(40*second, littleUntil)
	}
	rateBefore, perSecondBefore := before(&rate)
	rateAfter, perSecondAfter := after(&rate)
	table.Add("120 a second", rateBefore, rateAfter, perSecondBefore, perSecondAfter)
	gateBefore, gatePerSecondBefore := before(&gate)
	gateAfter, gatePerSecondAfter := after(&gate)
	table.Add("60 in flight", gateBefore, gateAfter, gatePerSecondBefore, gatePerSecondAfter)
	r.Tables = append(r.Tables, table)
	r.Figures = append(
		r.Figures,
		between("in flight at 120/s, a call takes 0.5 s", rateBefore, 59, 61, ""),
		between("in flight at 120/s, a call takes 1 s", rateAfter, 118, 122, ""),
		atMost("in flight with a limit of 60, a call takes 1 s", gateAfter, 60, ""),
	)
	r.Pictures = append(r.Pictures, draw.Picture{
		Name:  "little",
		Title: "Calls in flight when the server gets slower",
		Says: "Under a rate limit twice as many calls are in flight when each takes twice as long. A limit of what is in " +
			"flight holds, and admits fewer a second.",
		X:      draw.Axis{Label: "time, s", Max: seconds(littleUntil)},
		Y:      draw.Axis{Label: "calls in flight", Max: 140},
		Marks:  []draw.Mark{{Name: "calls take 1 s, no longer 0.5 s", X: seconds(littleSlow)}},
		Limits: []draw.Limit{{Name: "limit: 60\nin flight", Y: 60}},
		Series: []draw.Series{
			{Name: "limit of 120 a second", Kind: draw.Steps, Points: thinned(rate.inFlight, 0.2)},
			{Name: "limit of 60 in flight", Kind: draw.Steps, Points: thinned(gate.inFlight, 0.2)},
		},
	})
}

func littleGate(r *Result, seed uint64) {
	table := Table{
		Title:   "30 in flight; there is always somebody who waits to be admitted (1,000 calls a second are offered).",
		Columns: []string{"a call takes, s", "admitted a second", "30 / that"},
	}
	line := draw.Series{Name: "limit of 30 in flight"}
	last := 0.0
	rises := 0.0
	for _, takes := range []int64{200 * ms, 250 * ms, 300 * ms, 400 * ms, 500 * ms, 700 * ms, 1000 * ms, 1500 * ms, 2000 * ms} {
		gate := underGate(seed, 1000, 30, func(int64) int64 { return takes })
		got := gate.rate(10*second, littleUntil)
		table.Add(seconds(takes), got, 30/seconds(takes))
		line.Points = append(line.Points, draw.Point{X: seconds(takes), Y: got})
		if takes == 250*ms {
			r.Figures = append(r.Figures, between("a second with 30 in flight, a call takes 0.25 s", got, 118.5, 120.1, "/s"))
		}
		if last > 0 && got >= last {
			rises++
		}
		last = got
	}
	r.Tables = append(r.Tables, table)
	r.Figures = append(r.Figures, between("a second with 30 in flight, a call takes 1 s", line.Points[6].Y, 29.7, 30.6, "/s"))
	r.Figures = append(r.Figures, exactly("how often a longer call means more a second", rises, 0, ""))
	flat := draw.Series{Name: "limit of 120 a second", Dashed: true, Points: []draw.Point{{X: 0.2, Y: 120}, {X: 2, Y: 120}}}
	r.Pictures = append(r.Pictures, draw.Picture{
		Name:   "little-rate",
		Title:  "Calls admitted a second, against how long a call takes",
		Says:   "With 30 in flight the rate is 30 divided by the time that a call takes.",
		X:      draw.Axis{Label: "a call takes, s", Max: 2},
		Y:      draw.Axis{Label: "calls a second"},
		Series: []draw.Series{line, flat},
	})
}

// thinned keeps the last of the points in each step of X.
func thinned(points []draw.Point, step float64) (few []draw.Point) {
	few = append(few, draw.Point{})
	for i, p := range points {
		if i+1 == len(points) || int(points[i+1].X/step) != int(p.X/step) {
			few = append(few, p)
		}
	}
	return few
}
