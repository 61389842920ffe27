package breaker

import "math"

// demand is what was asked for one key of late, and how much of it the provider
// accepted: the rule of a [Throttle], which knows no clock, no lock and no
// randomness of its own. It is kept in a ring of cells. The newest is not over,
// so what counts lies between 39/40 of the window and all of it back.
type demand struct {
	begun  bool
	newest uint8
	start  int64 // of the newest cell
	due    int64 // from then on one call passes, whatever it draws

	asked, accepted int64 // sums of the cells
	cells           [demandCells]struct{ asked, accepted uint32 }
}

const demandCells = 40

// moveTo lets the time up to t go by. A t of the past is in the newest cell.
func (d *demand) moveTo(t, width int64) {
	if !d.begun || t-d.start >= demandCells*width || t < d.start-demandCells*width-otherClock {
		due := d.due
		if !d.begun || t < d.start { // nothing passed yet, or by another clock
			due = t
		}
		*d = demand{begun: true, start: t, due: due}
		return
	}
	for t-d.start >= width {
		d.newest = (d.newest + 1) % demandCells
		old := &d.cells[d.newest]
		d.asked -= int64(old.asked)
		d.accepted -= int64(old.accepted)
		old.asked, old.accepted = 0, 0
		d.start += width
	}
}

// count adds a call: one that was refused here, or one that is over.
func (d *demand) count(accepted bool) {
	cell := &d.cells[d.newest]
	if cell.asked == math.MaxUint32 {
		return
	}
	cell.asked++
	d.asked++
	if accepted {
		cell.accepted++
		d.accepted++
	}
}

// share is which part of the calls to refuse: what was asked beyond k times what
// was accepted.
func (d *demand) share(k, most float64, least int64) float64 {
	if d.asked < least {
		return 0
	}
	asked := float64(d.asked)
	return max(0, min(most, (asked-k*float64(d.accepted))/(asked+1)))
}

// isFresh reports whether nothing was refused or failed, so that to forget it
// changes little: successes weigh only against failures.
func (d *demand) isFresh() bool { return d.asked == d.accepted }
