package lab

import (
	"context"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/cubic"
	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/internal/sim"
)

var learn = Experiment{
	Name:  "learn",
	Title: "A pace that is learnt from refusals alone",
	Teaches: "This provider allows 100 calls a second, and 400 from the second minute on, and tells nobody: it only says " +
		"429. Fifty workers that go on at once use the limit and have 49 of 50 calls refused. Each of them waiting a " +
		"second after a refusal still has a third of the calls refused. A pace that is learnt settles just under the limit, " +
		"looks from time to time whether there is more, and finds four times as much within ten seconds, at one " +
		"refusal in hundreds of calls.",
	Run: runLearn,
}

const (
	learnWorkers = 50
	learnRTT     = 10 * time.Millisecond
	learnChange  = 120 // seconds: the quota is four times as much
	learnEnd     = 240
	learnFirst   = 100 // calls a second
	learnThen    = 400
)

// paced lets calls leave at the learnt pace, with a bucket as pacer.Pacer has
// it: one that holds what the pace gives in 5 ms, and at least one.
type paced struct {
	sim     *sim.Sim
	learner cubic.Learner
	level   float64
	filled  int64
	waiting queue[func()]
	timer   bool
}

func (p *paced) wait(leave func()) {
	p.waiting.push(leave)
	p.grant()
}

func (p *paced) grant() {
	for p.waiting.len() > 0 && !p.timer {
		now := p.sim.Now()
		if p.learner.On() {
			rate := p.learner.Rate()
			p.level = min(max(1, rate*0.005), p.level+rate*float64(now-p.filled)/1e9)
			if p.filled = now; p.level < 0.999999 {
				p.timer = true
				p.sim.After(int64((1-p.level)/rate*1e9)+1, func() {
					p.timer = false
					p.grant()
				})
				return
			}
			p.level--
			p.learner.Sent(now, 1)
		} else {
			p.level, p.filled = 0, now
		}
		p.waiting.oldest()()
	}
}

// learnRun is what a provider decided.
type learnRun struct {
	accepted, refused perSecond
	tenths            []float64 // accepted, in tenths of a second
}

// runLearner lets workers call, at a learnt pace or not. Pause is how long a
// worker waits after a refusal.
func runLearner(seed uint64, learns bool, pause int64) *learnRun {
	s := sim.New(seed)
	run := &learnRun{tenths: make([]float64, 10*learnEnd)}
	provider := key{rule: must(rule.NewBucket(rule.TokenBucket, learnFirst, second, learnFirst))}
	more := must(rule.NewBucket(rule.TokenBucket, learnThen, second, learnThen))
	s.At(learnChange*second, func() {
		provider.state, _ = more.Carry(provider.rule, provider.state, nil, s.Now())
		provider.rule = more
	})
	wire := func() int64 { return int64(float64(learnRTT) / 2 * (0.8 + 0.4*s.Rand.Float64())) }
	pace := &paced{sim: s}
	var work func()
	leave := func() {
		s.After(wire(), func() {
			ok := provider.take(s.Now()).Allowed()
			if ok {
				run.accepted.add(s.Now())
				run.tenths[s.Now()/(100*ms)]++
			} else {
				run.refused.add(s.Now())
			}
			s.After(wire(), func() {
				if learns {
					pace.learner.Answer(s.Now(), !ok)
					pace.grant()
				}
				if ok {
					work()
				} else {
					s.After(pause, work)
				}
			})
		})
	}
	work = func() {
		if learns {
			pace.wait(leave)
		} else {
			leave()
		}
	}
	for range learnWorkers {
		s.At(s.Rand.Int64N(ms), work)
	}
	s.Run(learnEnd * second)
	return run
}

// refusedShare is in percent.
func (r *learnRun) refusedShare(from, to int) float64 {
	refused := r.refused.mean(from, to)
	return 100 * refused / (refused + r.accepted.mean(from, to))
}

// found is after how many seconds nine tenths of the new quota were used, over a
// second.
func (r *learnRun) found() float64 {
	for i := 10 * learnChange; i+10 <= len(r.tenths); i++ {
		sum := 0.0
		for _, n := range r.tenths[i : i+10] {
			sum += n
		}
		if sum >= 0.9*learnThen {
			return float64(i+10)/10 - learnChange
		}
	}
	return learnEnd - learnChange
}

// learnFigures are what must hold of the learnt pace.
func learnFigures(seed uint64) []Figure {
	run := runLearner(seed, true, 0)
	return []Figure{
		atLeast("learn: used of 100 a second", run.accepted.mean(5, learnChange)/learnFirst*100, 95, "%"),
		atMost("learn: refused at 100 a second", run.refusedShare(5, learnChange), 1, "%"),
		atMost("learn: nine tenths of the new limit found after", run.found(), 10, "s"),
		atLeast("learn: used of 400 a second", run.accepted.mean(learnChange+15, learnEnd)/learnThen*100, 95, "%"),
		atMost("learn: refused at 400 a second", run.refusedShare(learnChange+15, learnEnd), 1, "%"),
	}
}

func runLearn(_ context.Context, o Options) (*Result, error) {
	result := &Result{Figures: learnFigures(o.Seed)}
	table := Table{
		Title:   "50 workers, 10 ms away; 100 calls a second are allowed (bursts of a second), 400 from 120 s on",
		Columns: []string{"after a refusal", "used of 100/s, %", "refused, %", "used of 400/s, %", "refused, %", "0 to 5 s: accepted, per s"},
	}
	picture := draw.Picture{
		Name:   "learn",
		Title:  "Calls accepted, at a pace that is learnt from refusals",
		Says:   "The pace stays just under the limit that nobody told, and follows within ten seconds when there is four times as much.",
		X:      draw.Axis{Label: "time, s", Min: 0, Max: 180},
		Y:      draw.Axis{Label: "calls per second"},
		Limits: []draw.Limit{{Name: "100/s, to 120 s", Y: learnFirst}, {Name: "400/s, from\n120 s", Y: learnThen}},
		Marks:  []draw.Mark{{Name: "the limit is raised", X: learnChange}},
	}
	for _, c := range []struct {
		name   string
		learns bool
		pause  int64
	}{
		{"goes on at once", false, 0},
		{"each worker waits 1 s", false, second},
		{"learns the pace (ours)", true, 0},
	} {
		run := runLearner(o.Seed, c.learns, c.pause)
		table.Add(c.name, run.accepted.mean(5, learnChange)/learnFirst*100, run.refusedShare(5, learnChange),
			run.accepted.mean(learnChange+15, learnEnd)/learnThen*100, run.refusedShare(learnChange+15, learnEnd), run.accepted.mean(0, 5))
		if c.learns {
			picture.Series = append(picture.Series,
				draw.Series{Name: "accepted", Points: run.accepted.points(180, 1)},
				draw.Series{Name: "refused", Points: run.refused.points(180, 1)})
		}
	}
	result.Tables = append(result.Tables, table)
	result.Pictures = append(result.Pictures, picture)
	return result, nil
}
