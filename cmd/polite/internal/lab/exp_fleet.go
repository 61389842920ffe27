package lab

import (
	"context"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/internal/sim"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/redisstore"
)

var fleet = Experiment{
	Name:  "fleet",
	Title: "40 processes, and one provider that limits the account they share",
	Teaches: "If each process keeps the provider's whole limit, the fleet sends many times of it, and most calls are " +
		"refused. If each keeps a fortieth, the processes that have work go slow while the others leave their share " +
		"unused. With one pace for all of them, kept in Redis, whoever has work sends: nearly all of the limit is " +
		"used, and nothing is refused. The pace is a percent below the limit, so that a bucket which the provider " +
		"finds empty at the start fills up.",
	Run: runFleet,
}

const (
	fleetProcesses = 40
	fleetBusy      = 10  // of them have work, others each second
	fleetLimit     = 100 // a second, burst 25
	fleetPace      = 99
	fleetWarm      = 4 * second
	fleetUntil     = 9 * second
	fleetEpoch     = int64(1_700_000_000) * second // Redis's clock at the beginning
)

// A pace says when the next call of a process may leave.
type pace func(process int, now int64) (wait int64, err error)

// sent is what came to the provider after the beginning.
type sent struct{ admitted, refused int }

// sending runs the fleet: for a second each, some of its processes have more to
// send than they may. A process asks for one call at a time, sends it when it
// may, and asks again; the way to the provider takes 5 to 25 ms.
func sending(seed uint64, may pace) (all sent, err error) {
	s := sim.New(seed)
	provider := key{rule: must(rule.NewBucket(rule.TokenBucket, fleetLimit, second, fleetLimit/4))}
	for range fleetLimit / 4 {
		provider.take(0) // somebody else has just used it up
	}
	var busy, asking [fleetProcesses]bool
	var next func(process int)
	next = func(process int) {
		if !busy[process] || err != nil {
			asking[process] = false
			return
		}
		asking[process] = true
		wait, failed := may(process, s.Now())
		if failed != nil {
			err = failed
			return
		}
		s.After(wait, func() {
			s.After(5*ms+s.Rand.Int64N(20*ms), func() {
				allowed := provider.take(s.Now()).Allowed()
				switch {
				case s.Now() < fleetWarm:
				case allowed:
					all.admitted++
				default:
					all.refused++
				}
			})
			s.After(ms, func() { next(process) }) // a round trip to Redis
		})
	}
	var shift func()
	shift = func() {
		order := s.Rand.Perm(fleetProcesses)
		for i, process := range order {
			busy[process] = i < fleetBusy
			if busy[process] && !asking[process] {
				next(process)
			}
		}
		s.After(second, shift)
	}
	s.At(0, shift)
	s.Run(fleetUntil)
	return all, err
}

// alone lets each process keep a rate by itself.
func alone(count, per int64) pace {
	r := must(rule.NewBucket(rule.TokenBucket, count, per, 1))
	var keys [fleetProcesses]key
	return func(process int, now int64) (int64, error) {
		k := &keys[process]
		k.rule = r
		wait := k.take(now).Retry
		if wait > 0 {
			k.take(now + wait)
		}
		return wait, nil
	}
}

// together keeps one pace in a Redis within this program, by the scripts of
// redisstore, which are told the time.
func together(r *redis) (pace, func(), error) {
	client, done, err := r.client()
	if err != nil {
		return nil, nil, err
	}
	var at int64
	store := &redisstore.Store{
		Client:  stamped{client, func() int64 { return (fleetEpoch + at) / int64(time.Microsecond) }},
		Timeout: -1,
	}
	one := pacer.Pace{Rate: pacer.Per(fleetPace, time.Second)}
	return func(_ int, now int64) (int64, error) {
		at = now
		grant, err := store.Reserve(context.Background(), "account", one, 1, time.Minute)
		return int64(grant.Wait), err
	}, done, nil
}

func runFleet(_ context.Context, o Options) (*Result, error) {
	mini, err := embed("miniredis")
	if err != nil {
		return nil, err
	}
	defer mini.stop()
	shared, done, err := together(mini)
	if err != nil {
		return nil, err
	}
	defer done()
	r := &Result{}
	table := Table{
		Title:   "40 processes, of which 10 have work, others each second; the provider takes 100 a second. From 4 s to 9 s.",
		Columns: []string{"pace of each process", "admitted a second", "of the limit, %", "refused (429) a second"},
	}
	good := draw.Series{Name: "admitted", Kind: draw.Bars}
	bad := draw.Series{Name: "refused (429)", Kind: draw.Bars}
	var names []string
	for i, each := range []struct {
		name, short string
		may         pace
	}{
		{"the whole limit", "the whole limit each", alone(fleetLimit, second)},
		{"a fortieth of it", "a fortieth each", alone(fleetLimit, fleetProcesses*second)},
		{"one pace, shared", "one pace, shared", shared},
	} {
		got, err := sending(o.Seed, each.may)
		if err != nil {
			return nil, err
		}
		span := seconds(fleetUntil - fleetWarm)
		admitted, refused := float64(got.admitted)/span, float64(got.refused)/span
		used := 100 * admitted / fleetLimit
		table.Add(each.name, admitted, used, refused)
		good.Points = append(good.Points, draw.Point{X: float64(i), Y: admitted})
		bad.Points = append(bad.Points, draw.Point{X: float64(i), Y: refused})
		names = append(names, each.short)
		switch i {
		case 0:
			r.Figures = append(r.Figures, atLeast("refused a second, the whole limit each", refused, fleetLimit, "/s"))
		case 1:
			r.Figures = append(r.Figures, atMost("of the limit used, a fortieth each", used, 40, "%"))
		default:
			r.Figures = append(r.Figures,
				exactly("refused after warm-up, shared pace", float64(got.refused), 0, ""),
				atLeast("of the limit used, shared pace", used, 97, "%"))
		}
	}
	r.Tables = append(r.Tables, table)
	r.Pictures = append(r.Pictures, draw.Picture{
		Name:   "fleet",
		Title:  "40 processes, 10 of them with work: what comes to the provider",
		Says:   "Only a pace that the processes share uses the limit and is not refused.",
		X:      draw.Axis{Label: "pace of each process", Names: names},
		Y:      draw.Axis{Label: "calls a second"},
		Series: []draw.Series{good, bad},
		Limits: []draw.Limit{{Name: "limit: 100/s", Y: fleetLimit}},
	})
	return r, nil
}
