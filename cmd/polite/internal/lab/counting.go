package lab

import (
	"slices"
	"time"
)

const (
	second = int64(time.Second)
	ms     = int64(time.Millisecond)
)

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
