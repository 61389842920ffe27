package lab

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/internal/sim"
)

var throttle = Experiment{
	Name:  "throttle",
	Title: "Clients that send a provider little more than it accepts",
	Teaches: "Saying no costs a provider something, too, and at ten times its capacity that is most of what it does. A " +
		"client that counts how many of its calls were accepted can spare it: it sends K calls for each one accepted " +
		"and refuses the rest itself, at no cost to anybody. K = 2 sends the provider twice what it takes, and " +
		"finds out within seconds when it takes more. A K near 1 spares it more and leaves some of it unused. In an " +
		"outage a tenth still goes out: a client that sends nothing learns nothing, and comes back minutes late.",
	Run: runThrottle,
}

const (
	throttleClients = 20
	throttleQuota   = 100 // calls a second that the provider accepts, of all clients
	throttleRTT     = 10 * time.Millisecond

	outageFrom, outageTo = 120, 180 // seconds
	outageEnd            = 330
)

// throttleRun is what clients with a throttle each sent to one provider.
type throttleRun struct {
	asked, sent, accepted perSecond
}

func runThrottled(seed uint64, offered float64, like func() *breaker.Throttle, down func(now int64) bool, until int) *throttleRun {
	s := sim.New(seed)
	run := new(throttleRun)
	provider := key{rule: must(rule.NewBucket(rule.TokenBucket, throttleQuota, second, throttleQuota/10))}
	for range throttleClients {
		t := like()
		s.Poisson(sim.PerSecond(offered/throttleClients), func() {
			run.asked.add(s.Now())
			pass, err := t.Enter("provider", instant(s.Now()), s.Rand.Float64())
			if err != nil {
				return
			}
			s.After(int64(throttleRTT/2), func() {
				run.sent.add(s.Now())
				outcome := breaker.Throttled
				if !down(s.Now()) && provider.take(s.Now()).Allowed() {
					outcome = breaker.Success
				}
				s.After(int64(throttleRTT/2), func() {
					if outcome == breaker.Success {
						run.accepted.add(s.Now())
					}
					pass.Done(outcome, instant(s.Now()))
				})
			})
		})
	}
	s.Run(int64(until) * second)
	return run
}

func defaults() *breaker.Throttle { return new(breaker.Throttle) }

func longWindow(k float64) func() *breaker.Throttle {
	return func() *breaker.Throttle { return &breaker.Throttle{K: k, Window: 2 * time.Minute, MaxReject: 1} }
}

func never(int64) bool { return false }

func duringOutage(now int64) bool { return now >= outageFrom*second && now < outageTo*second }

// sentPerAccepted is how many calls the provider saw for each one it accepted.
func (r *throttleRun) sentPerAccepted(from, to int) float64 {
	return r.sent.mean(from, to) / r.accepted.mean(from, to)
}

// recovery is how many seconds after the outage 95 % of the calls succeeded, in
// three seconds on end.
func (r *throttleRun) recovery() float64 {
	after := r.accepted.recovered(outageTo, func(i int) bool { return r.accepted[i] >= 0.95*r.asked[i] })
	if after < 0 {
		return outageEnd - outageTo
	}
	return after
}

// throttleFigures are what must hold: of the rule, and of the defaults.
func throttleFigures(seed uint64) []Figure {
	figures := make([]Figure, 0, 3)
	for _, k := range []float64{2, 1.5} {
		run := runThrottled(seed, 10*throttleQuota, longWindow(k), never, 360)
		figures = append(figures, atMost(fmt.Sprintf("throttle, ten times too much, K = %g: sent for each call accepted", k), run.sentPerAccepted(150, 360), k+0.05, ""))
	}
	run := runThrottled(seed, 0.9*throttleQuota, defaults, duringOutage, outageEnd)
	return append(figures, atMost("throttle, after an outage of 60 s: 95 % succeed again after", run.recovery(), 20, "s"))
}

func runThrottle(_ context.Context, o Options) (*Result, error) {
	result := &Result{Figures: throttleFigures(o.Seed)}
	overload := Table{
		Title:   "20 clients ask for 1,000 calls a second of a provider that accepts 100; window 120 s",
		Columns: []string{"K", "sent, per s", "accepted, per s", "sent for each one accepted"},
	}
	for _, k := range []float64{2, 1.5, 1.1} {
		run := runThrottled(o.Seed, 10*throttleQuota, longWindow(k), never, 360)
		overload.Add(strconv.FormatFloat(k, 'g', -1, 64), run.sent.mean(150, 360), run.accepted.mean(150, 360), run.sentPerAccepted(150, 360))
	}
	calm := runThrottled(o.Seed, 0.9*throttleQuota, defaults, never, 120)
	refused := 100 * (1 - calm.sent.mean(10, 119)/calm.asked.mean(10, 119))
	result.Figures = append(result.Figures, atMost("throttle, load of 90 %: refused by the clients", refused, 1, "%"))

	outage := Table{
		Title:   "90 calls a second; the provider is down from 120 s to 180 s",
		Columns: []string{"throttle", "sent while down, per s", "95 % succeed again after, s"},
	}
	success := draw.Picture{
		Name:  "throttle",
		Title: "Calls sent and accepted, before, in and after an outage of a minute",
		Says: "While the provider is down some calls go on probing it, and so find out at once when it is up. A client that " +
			"refuses all of them learns of it much later.",
		X:      draw.Axis{Label: "time, s", Min: 90, Max: 240},
		Y:      draw.Axis{Label: "calls per second"},
		Limits: []draw.Limit{{Name: "limit: 100/s", Y: throttleQuota}},
		Marks:  []draw.Mark{{Name: "down", X: outageFrom}, {Name: "up", X: outageTo}},
	}
	for _, c := range []struct {
		name  string
		like  func() *breaker.Throttle
		drawn string
	}{
		{"defaults: K = 2, window 10 s, at most 90 % refused", defaults, "defaults"},
		{"window 30 s", func() *breaker.Throttle { return &breaker.Throttle{Window: 30 * time.Second} }, ""},
		{"all may be refused, but one a second", func() *breaker.Throttle { return &breaker.Throttle{MaxReject: 1} }, ""},
		{"window 30 s, all may be refused", func() *breaker.Throttle {
			return &breaker.Throttle{Window: 30 * time.Second, MaxReject: 1, PassEvery: -1}
		}, "all may be refused"},
		{"none", func() *breaker.Throttle { return &breaker.Throttle{MaxReject: -1} }, ""},
	} {
		run := runThrottled(o.Seed, 0.9*throttleQuota, c.like, duringOutage, outageEnd)
		outage.Add(c.name, run.sent.mean(outageFrom+10, outageTo), run.recovery())
		if c.drawn != "" {
			success.Series = append(success.Series,
				draw.Series{Name: c.drawn + ": accepted", Points: run.accepted.points(240, 1)},
				draw.Series{Name: c.drawn + ": sent", Points: run.sent.points(240, 1), Dashed: true})
		}
	}
	result.Tables = append(result.Tables, overload, outage)
	result.Pictures = append(result.Pictures, success)
	return result, nil
}
