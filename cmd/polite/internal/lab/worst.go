package lab

import (
	"runtime"
	"strings"
	"sync"
)

// seeds is how often what must hold is tried: the worst counts.
const seeds = 10

// worstOf makes figures with so many seeds, from first on, and keeps the worst
// of each.
func worstOf(first uint64, figures func(seed uint64) []Figure) []Figure {
	each := abreast(seeds, func(i int) []Figure { return figures(first + uint64(i)) })
	worst := each[0]
	for _, other := range each[1:] {
		for i, f := range other {
			if f.worse(worst[i]) {
				worst[i] = f
			}
		}
	}
	return worst
}

// worse compares two figures of the same name.
func (f Figure) worse(than Figure) bool {
	switch {
	case f.OK != than.OK:
		return than.OK
	case strings.HasPrefix(f.Bound, "≥"):
		return f.Got < than.Got
	}
	return f.Got > than.Got
}

// abreast makes n results, as many at once as there are processors. Each run
// has a simulation of its own, so that they come out the same in any order.
func abreast[T any](n int, run func(i int) T) []T {
	results := make([]T, n)
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for i := range n {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			results[i] = run(i)
		})
	}
	group.Wait()
	return results
}
