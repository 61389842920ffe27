package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/politehttp/polite/shed"
)

const (
	clientTimeout = time.Second // how long clients wait
	measuring     = 5 * time.Second
)

// trial is one server and what came of asking it for too much.
type trial struct {
	gate     bool
	capacity float64 // answers a second, measured just before
	*outcome
	refusals map[shed.Reason]int64
}

// goodput is answers a second.
func (t *trial) goodput() float64 { return float64(t.Served) / t.Period.Seconds() }

// late is the same in the second half.
func (t *trial) late() float64 {
	n := int(t.Period / time.Second)
	half, sum := min(n/2, len(t.seconds)), 0
	for _, s := range t.seconds[half:] {
		sum += s.Served
	}
	return float64(sum) / float64(n-half)
}

// of is a share of the capacity.
func (t *trial) of(goodput float64) float64 { return goodput / t.capacity }

// percentile is of how long those took that were served.
func (t *trial) percentile(n int) time.Duration { return time.Duration(t.took[n]) }

// demonstrate asks a server without a Gate once, and one with it as often as was
// asked for.
func demonstrate(ctx context.Context, o *options, out io.Writer) ([]*trial, error) {
	all := time.Duration(o.runs+1) * (o.period + o.measuring)
	fmt.Fprintf(out, intro, workers, takes, o.times, o.period, clientTimeout, all.Round(time.Second))
	var trials []*trial
	for i := range o.runs + 1 {
		name := "without a Gate"
		if i > 0 {
			name = fmt.Sprintf("with a Gate, %d of %d", i, o.runs)
		}
		t, err := try(ctx, o, i > 0, name, out)
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
	}
	return trials, nil
}

const intro = `A server has %d workers, and a request takes one of them for %s. Another
process asks it for %v times what it can do, at random moments, for %s.
Clients wait for %s. This takes about %s.

`

// newGate lets as many in as there are workers; the rest of it is as usual.
func newGate(o *options) *shed.Gate { return &shed.Gate{Limit: workers, MaxWait: o.wait} }

// try measures what a server can do, and then asks it for more.
func try(ctx context.Context, o *options, withGate bool, name string, out io.Writer) (*trial, error) {
	t := &trial{gate: withGate}
	show := newProgress(out, name)
	defer show.hide()

	server, err := serve(nil)
	if err != nil {
		return nil, err
	}
	closed, err := send(ctx, order{URL: server.url, Callers: 2 * workers, Period: o.measuring, Timeout: 10 * time.Second},
		func(second int, s tally) {
			show.line("%d of %.0f s: measures the capacity: %d/s", second, o.measuring.Seconds(), s.Served)
		})
	server.stop()
	if err != nil {
		return nil, err
	}
	// Without the first second, if there are others, and without what the end cuts off.
	last := int(o.measuring/time.Second) - 1
	if len(closed.seconds) < last || closed.Served == 0 || closed.Failed > 0 {
		return nil, fmt.Errorf("the capacity cannot be measured: %s", closed.Problem)
	}
	first := min(1, last-1)
	for _, s := range closed.seconds[first:last] {
		t.capacity += float64(s.Served) / float64(last-first)
	}

	var gate *shed.Gate
	if withGate {
		gate = newGate(o)
	}
	if server, err = serve(gate); err != nil {
		return nil, err
	}
	defer server.stop()
	t.outcome, err = send(ctx, order{URL: server.url, Rate: o.times * t.capacity, Period: o.period, Timeout: clientTimeout},
		func(second int, s tally) {
			show.line("%d of %.0f s: served %d/s, refused %d/s, gave up %d/s", second, o.period.Seconds(), s.Served, s.Refused, s.TimedOut)
		})
	if err == nil && gate != nil {
		t.refusals = gate.Stats().Refused
	}
	return t, err
}
