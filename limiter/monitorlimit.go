package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/internal/period"
)

// limitID is what limits are told apart by. Two of the same name and numbers
// are one to whoever looks at them.
type limitID struct {
	name, rule string
	quota      int64
	window     time.Duration // zero: a month
	period     Period
	zone       *time.Location
}

func identify(l *Limit) limitID {
	id := limitID{name: l.Name(), rule: l.Kind(), quota: l.Quota(), window: max(l.Window(), time.Second)}
	if id.period, id.zone = l.Calendar(); id.period != 0 {
		id.window = 0
		if id.period == Day {
			id.window = 24 * time.Hour
		}
	}
	return id
}

// windowAt is the beginning of the window of now, by the clock or the calendar.
func (id *limitID) windowAt(now time.Time) time.Time {
	switch {
	case id.zone == nil:
		return time.Unix(0, now.UnixNano()-mod(now.UnixNano(), int64(id.window))).UTC()
	case id.period == Month:
		start, _ := period.Month.Of(now, id.zone)
		return start.In(id.zone)
	}
	start, _ := period.Day.Of(now, id.zone)
	return start.In(id.zone)
}

// mod is a mod b, not negative.
func mod(a, b int64) int64 { return (a%b + b) % b }

// limitCounts are the counts of one limit: of rules in force and of rules on
// trial.
type limitCounts struct {
	limitID
	live, trial tally
}

func (c *limitCounts) tally(trial bool) *tally {
	if trial {
		return &c.trial
	}
	return &c.live
}

// tally counts the requests and units that a limit admitted and refused.
type tally struct {
	admitted, near, units atomic.Int64

	mu           sync.Mutex // guards what follows
	refused      int64
	never        int64
	refusedUnits int64
	windows      []windowCount // oldest first
}

// windowCount is the units refused in the window that began at start.
type windowCount struct {
	start time.Time
	units int64
}

func (t *tally) admit(cost int64, near bool) {
	t.admitted.Add(1)
	t.units.Add(cost)
	if near {
		t.near.Add(1)
	}
}

func (t *tally) refuse(cost int64, never bool, window time.Time, most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused++
	if never {
		t.never++
		return
	}
	t.refusedUnits = addUnits(t.refusedUnits, cost)
	if most == 0 {
		return
	}
	last := len(t.windows) - 1
	switch {
	case last >= 0 && !window.After(t.windows[last].start): // or the clock was put back
		t.windows[last].units = addUnits(t.windows[last].units, cost)
		return
	case len(t.windows) == most:
		copy(t.windows, t.windows[1:])
		t.windows = t.windows[:last]
	}
	t.windows = append(t.windows, windowCount{window, cost})
}

// addUnits is the sum, or the largest number if that is less.
func addUnits(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
