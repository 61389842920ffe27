package lab

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the experiments with limits, waits and retries must show holds with each
// of ten seeds. With the race detector, which makes it slow, with one, and what
// simulates for seconds then, in one goroutine, is left out.
func TestLimits(t *testing.T) {
	tries := uint64(seeds)
	if raced {
		tries = 1
	}
	large := []string{fleet.Name, herd.Name, storm.Name, little.Name}
	for _, e := range limits {
		if e.Loose {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			if raced && slices.Contains(large, e.Name) {
				t.Skip(slowRaced)
			}
			t.Parallel()
			for seed := range tries {
				r, err := e.Run(t.Context(), Options{Seed: seed + 1})
				require.NoError(t, err)
				require.NotEmpty(t, r.Figures)
				for _, f := range r.Figures {
					assert.True(t, f.OK, "seed %d: %s is %v %s, and must be %s", seed+1, f.Name, f.Got, f.Unit, f.Bound)
				}
			}
		})
	}
}

// The same seed gives the same.
func TestSameAgain(t *testing.T) {
	for _, e := range []Experiment{boundary, little} {
		if raced && e.Name == little.Name {
			continue // simulates for seconds, in one goroutine
		}
		text := func(seed uint64) string {
			r, err := e.Run(t.Context(), Options{Seed: seed})
			require.NoError(t, err)
			b, err := json.Marshal(map[string]any{"result": r, "pictures": r.Pictures})
			require.NoError(t, err)
			return string(b)
		}
		first := text(3)
		assert.Equal(t, first, text(3), e.Name)
		assert.NotEqual(t, first, text(4), e.Name)
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range All() {
		assert.False(t, seen[e.Name], e.Name)
		seen[e.Name] = true
		found, ok := Find(e.Name)
		assert.True(t, ok)
		assert.Equal(t, e.Title, found.Title)
		assert.NotEmpty(t, e.Title, e.Name)
		assert.NotEmpty(t, e.Teaches, e.Name)
	}
	_, ok := Find("all")
	assert.False(t, ok)
}

func TestFigures(t *testing.T) {
	assert.True(t, atMost("", 2, 2, "").OK)
	assert.False(t, atMost("", 2.1, 2, "").OK)
	assert.True(t, atLeast("", 2, 2, "").OK)
	assert.False(t, atLeast("", 1.9, 2, "").OK)
	assert.True(t, exactly("", 0.1+0.2, 0.3, "").OK)
	assert.False(t, exactly("", 0.31, 0.3, "").OK)
	assert.True(t, between("", 3, 2, 4, "").OK)
	assert.False(t, between("", 1, 2, 4, "").OK)
	assert.False(t, between("", 5, 2, 4, "").OK)
	assert.Equal(t, "1.50 to 10", between("", 5, 1.5, 10, "").Bound)
	for v, want := range map[float64]string{0: "0", 0.0123: "0.012", 0.5: "0.50", 1.066: "1.07", 12.34: "12.3", 1234.5: "1234", -3: "-3", 98: "98"} {
		assert.Equal(t, want, number(v))
	}
}

func TestCounting(t *testing.T) {
	most, from := mostWithin(10, []int64{30, 0, 9, 10, 19, 20})
	assert.Equal(t, 2, most, "half-open: 0 and 10 are in no interval of 10")
	assert.EqualValues(t, 0, from)
	most, from = mostWithin(11, []int64{30, 0, 9, 10, 19, 20})
	assert.Equal(t, 3, most)
	assert.EqualValues(t, 0, from)
	assert.Equal(t, []int{2, 0, 1}, binned(10, 25, []int64{0, 9, 24, 25, -1}))
}
