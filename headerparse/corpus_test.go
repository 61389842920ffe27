package headerparse

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A corpusCase is a response as a service, gateway, specification or broken
// server sends it, and what a careful client concludes. null is unknown.
type corpusCase struct {
	ID      string              `json:"id"`
	Service string              `json:"service"`
	Status  int                 `json:"status"`
	Now     time.Time           `json:"now"`
	Headers map[string][]string `json:"headers"`
	Expect  struct {
		Wait   *float64      `json:"retry_after_s"`
		Limits []corpusLimit `json:"limits"`
		Note   string        `json:"note"`
	} `json:"expect"`
}

type corpusLimit struct {
	Name      *string  `json:"name"`
	Unit      *string  `json:"unit"`
	Quota     *float64 `json:"limit"`
	Remaining *float64 `json:"remaining"`
	Reset     *float64 `json:"reset_after_s"`
	Window    *float64 `json:"window_s"`
}

func corpus(t testing.TB) []corpusCase {
	t.Helper()
	data, err := os.ReadFile("testdata/headers.json")
	require.NoError(t, err)
	var cases []corpusCase
	require.NoError(t, json.Unmarshal(data, &cases))
	return cases
}

// header has canonical names, as net/http gives them.
func (c corpusCase) header() http.Header {
	h := http.Header{}
	for name, lines := range c.Headers {
		for _, line := range lines {
			h.Add(name, line)
		}
	}
	return h
}

func TestCorpus(t *testing.T) {
	cases := corpus(t)
	require.Len(t, cases, 276)
	var limits, named, withUnit int
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			got := Parse(c.Status, c.header(), c.Now)
			checkBounds(t, got)
			assert.Equal(t, c.Status, got.Status)
			assert.Equal(t, c.Expect.Wait != nil, got.Told, "told: %s\n%+v", c.Expect.Note, got)
			if c.Expect.Wait != nil && got.Told {
				assert.True(t, near(*c.Expect.Wait, got.Wait.Seconds()), "wait %v, want %v s: %s", got.Wait, *c.Expect.Wait, c.Expect.Note)
			}
			limits += len(c.Expect.Limits)
			n, u := matchLimits(t, c.Expect.Limits, got.Limits)
			named, withUnit = named+n, withUnit+u
		})
	}
	// Names and units are suggestions of the corpus.
	assert.Equal(t, 226, limits)
	assert.Equal(t, 226, named, "limits whose name is as the corpus suggests")
	assert.Equal(t, 226, withUnit, "limits whose unit is as the corpus suggests")
}

// matchLimits compares as sets, and counts the equal names and units. Of
// limits with the same numbers those with the same name belong together.
func matchLimits(t *testing.T, want []corpusLimit, got []Limit) (named, withUnit int) {
	t.Helper()
	assert.Len(t, got, len(want), "limits: %+v", got)
	used := make([]bool, len(got))
	for _, w := range want {
		found := -1
		for i, g := range got {
			if used[i] || !w.numbers(g) {
				continue
			}
			if found < 0 || text(w.Name) == g.Name && text(w.Unit) == g.Unit {
				found = i
			}
		}
		if !assert.GreaterOrEqual(t, found, 0, "no limit has %s\ngot %+v", w, got) {
			continue
		}
		used[found] = true
		if text(w.Name) == got[found].Name {
			named++
		} else {
			t.Logf("name %q, suggested %q", got[found].Name, text(w.Name))
		}
		if text(w.Unit) == got[found].Unit {
			withUnit++
		} else {
			t.Logf("unit %q, suggested %q", got[found].Unit, text(w.Unit))
		}
	}
	return named, withUnit
}

func (w corpusLimit) numbers(g Limit) bool {
	return same(w.Quota, g.Quota) && same(w.Remaining, g.Remaining) && same(w.Reset, seconds(g.Reset)) && same(w.Window, seconds(g.Window))
}

func (w corpusLimit) String() string {
	data, _ := json.Marshal(w)
	return string(data)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func seconds(d time.Duration) float64 {
	if d == Unknown {
		return Unknown
	}
	return d.Seconds()
}

func same(want *float64, got float64) bool {
	if want == nil {
		return got == Unknown
	}
	return near(*want, got)
}

func near(want, got float64) bool {
	return math.Abs(want-got) <= max(0.002, 1e-6*math.Abs(want))
}

// checkBounds is what holds for every input.
func checkBounds(t testing.TB, s Signal) {
	t.Helper()
	bound := func(what string, d time.Duration, unknown bool) {
		if d < 0 && !unknown || d > 366*24*time.Hour {
			assert.Fail(t, fmt.Sprintf("%s is %v", what, d))
		}
	}
	bound("wait", s.Wait, false)
	assert.Equal(t, s.Told, s.Source != "", "a told wait has a source: %+v", s)
	assert.LessOrEqual(t, len(s.Limits), maxLimits)
	assert.GreaterOrEqual(t, s.By, -1)
	assert.Less(t, s.By, len(s.Limits))
	for _, l := range s.Limits {
		bound("reset", l.Reset, l.Reset == Unknown)
		bound("window", l.Window, l.Window == Unknown)
		for _, v := range []float64{l.Quota, l.Remaining} {
			if v != Unknown && !(v >= 0 && !math.IsInf(v, 0)) {
				assert.Fail(t, fmt.Sprintf("count is %v", v))
			}
		}
		assert.LessOrEqual(t, len(l.Name), maxText)
		assert.LessOrEqual(t, len(l.Unit), maxText)
	}
}
