package breaker

import "time"

const (
	cells = 10

	// mostWindow stands for every longer Window: instants may be that far apart,
	// and a minute more, without overflow.
	mostWindow = 365 * 24 * time.Hour
)

// A window counts the calls of the last while in a ring of cells. The first
// call after silence begins the first cell, so what it counted is forgotten
// after exactly the window; what came later in a cell goes with its cell.
type window struct {
	width  int64 // of a cell
	start  int64 // of the newest cell
	newest uint8
	begun  bool
	seen   uint32 // successes of the era up to the last move
	good   [cells]uint32
	bad    [cells]uint32
}

func newWindow(d time.Duration) *window {
	return &window{width: max(1, int64(d)/cells)}
}

// moveTo makes the cell of t the newest, when the era has had so many
// successes, and returns when that cell ends. A t of the past is in the newest.
func (w *window) moveTo(t int64, successes uint64) (end int64) {
	w.good[w.newest] += uint32(successes) - w.seen // both wrap alike
	w.seen = uint32(successes)
	if !w.begun || t-w.start >= cells*w.width || t < w.start-cells*w.width-otherClock {
		*w = window{width: w.width, start: t, begun: true, seen: w.seen}
	}
	for t-w.start >= w.width {
		w.newest = (w.newest + 1) % cells
		w.good[w.newest], w.bad[w.newest] = 0, 0
		w.start += w.width
	}
	return w.start + w.width
}

// fail counts a failure in the newest cell.
func (w *window) fail() { w.bad[w.newest]++ }

// count is what the window holds.
func (w *window) count() (bad, all int64) {
	for i := range cells {
		bad += int64(w.bad[i])
		all += int64(w.bad[i]) + int64(w.good[i])
	}
	return bad, all
}
