package lab

import (
	"slices"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
)

const (
	minute = int64(time.Minute)
	second = int64(time.Second)
	ms     = int64(time.Millisecond)
)

func seconds(d int64) float64 { return float64(d) / float64(second) }

// every returns n instants, the first at from.
func every(gap int64, n int, from int64) (at []int64) {
	for i := range n {
		at = append(at, from+int64(i)*gap)
	}
	return at
}

// mostWithin returns the most instants in any interval [t, t+span), and where
// the first such interval begins.
func mostWithin(span int64, instants []int64) (most int, from int64) {
	at := slices.Sorted(slices.Values(instants))
	first := 0
	for i := range at {
		for at[i]-at[first] >= span {
			first++
		}
		if n := i - first + 1; n > most {
			most, from = n, at[first]
		}
	}
	return most, from
}

// within returns how many of the instants lie within the span before each time,
// as steps.
func within(span int64, instants []int64) (steps []draw.Point) {
	change := map[int64]int{}
	for _, at := range instants {
		change[at]++
		change[at+span]--
	}
	times := make([]int64, 0, len(change))
	for at := range change {
		times = append(times, at)
	}
	slices.Sort(times)
	steps = append(steps, draw.Point{})
	count := 0
	for _, at := range times {
		count += change[at]
		steps = append(steps, draw.Point{X: seconds(at), Y: float64(count)})
	}
	return steps
}

// binned counts instants in bins of a width, from 0 to until.
func binned(width, until int64, instants []int64) []int {
	bins := make([]int, (until+width-1)/width)
	for _, at := range instants {
		if at >= 0 && at < until {
			bins[at/width]++
		}
	}
	return bins
}

// histogram returns bars of bins, each in the middle of its time.
func histogram(width int64, bins []int) (bars []draw.Point) {
	for i, n := range bins {
		bars = append(bars, draw.Point{X: seconds(int64(i)*width + width/2), Y: float64(n)})
	}
	return bars
}
