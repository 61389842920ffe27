package headerparse

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNothingToRead(t *testing.T) {
	for name, h := range map[string]http.Header{
		"nil":      nil,
		"empty":    {},
		"plain":    plainHeader(12),
		"no lines": {"Retry-After": nil, "X-Ratelimit-Reset": {}},
		"no names": {"": {"5"}, "\xff": {"5"}, "X-": {"5"}, "x": {"5"}, "Retry": {"5"}},
		"no token": {"X-Ratelimit-Limit ": {"5"}, "X-Ratelimit-Limit\x00": {"5"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, Signal{Status: 418, By: -1}, Parse(418, h, received))
		})
	}
}

func TestSilent(t *testing.T) {
	assert.True(t, Silent(nil))
	assert.True(t, Silent(plainHeader(12)))
	assert.False(t, Silent(head1))
}

// TestAllocations: what has no limit field costs no memory, whatever the names
// look like.
func TestAllocations(t *testing.T) {
	alike := head("X-Envoy-Ratelimited: true", "X-Request-Limit-Id: 7", "X-Request-Id: 1", "X-Apple-Id: 3",
		"X-Credits-Used: 5", "Retry-Afterwards: 5", "X-Retry-Count: 3", "Rate: 5", "Limit: 4", "X-RateLimit-Scope: user")
	for name, h := range map[string]http.Header{"nil": nil, "6": plainHeader(6), "12": plainHeader(12), "alike": alike} {
		assert.Zero(t, testing.AllocsPerRun(100, func() { sinkSignal = Parse(200, h, time.Time{}) }), name)
		assert.Empty(t, sinkSignal.Limits, name)
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { sinkSignal = Parse(429, head1, time.Time{}) }), "Retry-After")
	assert.True(t, sinkSignal.Told)
}

var head1 = http.Header{"Retry-After": {"30"}}

// TestFilter: every name that some row of the table reads passes the filter
// that comes before, in any case.
func TestFilter(t *testing.T) {
	var names []string
	for _, d := range dialects {
		if d.ends == nil {
			names = append(names, d.stem)
		}
		for _, e := range d.ends {
			names = append(names, strings.TrimSuffix(d.stem+"-"+e.text, "-"))
		}
	}
	for _, c := range corpus(t) {
		for name := range c.Headers {
			if _, ok := classify(name); ok {
				names = append(names, name)
			}
		}
	}
	require.Greater(t, len(names), 400)
	for _, name := range names {
		_, ok := classify(name)
		assert.True(t, ok, name)
		for _, spelling := range []string{name, asciiCase(name, true), asciiCase(name, false), http.CanonicalHeaderKey(name)} {
			assert.True(t, mightTell(spelling), spelling)
		}
	}
	for name := range plainHeader(12) {
		assert.False(t, mightTell(name), name)
	}
}

// TestHostile has servers that send too much of everything.
func TestHostile(t *testing.T) {
	many := func(n int, format string, value string) http.Header {
		h := http.Header{}
		for i := range n {
			h.Set(fmt.Sprintf(format, i), value)
		}
		return h
	}
	items := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%d";r=0;t=%d`, i, i))
		}
		return strings.Join(all, ", ")
	}
	long := strings.Repeat("9", 1<<20)
	for _, c := range []struct {
		name  string
		h     http.Header
		limit int // how many limits
		want  string
	}{
		{"names", many(1000, "X-Ratelimit-Remaining-%d", "0"), maxLimits, "nothing"},
		{"prefixes", many(1000, "X-Acme%d-Ratelimit-Reset", "5"), 1, "5s X-Acme0-Ratelimit-Reset"},
		{"advice", many(1000, "X-Acme%d-Ratelimit-Retry-After", "5"), 0, "5s X-Acme0-Ratelimit-Retry-After"},
		{"items", http.Header{"Ratelimit": {items(300)}}, maxLimits, "31s Ratelimit"},
		{"a list over the bound", http.Header{"Ratelimit": {items(3000)}}, 0, "nothing"},
		{"lines over the bound", http.Header{"Ratelimit": {items(1), strings.Repeat(" ", maxValue)}}, 0, "nothing"},
		{"lines of a list", http.Header{"Ratelimit": strings.Split(items(20), ", ")}, 8, "7s Ratelimit"},
		{"lines", http.Header{"Retry-After": append(strings.Split(strings.Repeat("5 ", 10_000), " "), "60")}, 0, "5s Retry-After"},
		{"a long line", http.Header{"Retry-After": {strings.Repeat("5, ", maxValue) + "60"}}, 0, "nothing"},
		{"a long number", http.Header{"Retry-After": {long}, "X-Ratelimit-Reset": {long}, "X-Ratelimit-Limit": {long}}, 0, "nothing"},
		{"a long name", http.Header{"X-Ratelimit-Reset-" + strings.Repeat("A", 1000): {"5"}}, 0, "nothing"},
		{"a long label", head("X-RateLimit-Remaining: 1", "X-RateLimit-Resource: "+strings.Repeat("a", 1000)), 1, "nothing"},
		{"categories", http.Header{"X-Sentry-Rate-Limits": {strings.Repeat("5:a,6:b,", 900)}}, 2, "6s X-Sentry-Rate-Limits"},
		{"deep JSON", http.Header{"X-App-Usage": {strings.Repeat(`{"a":`, 1600)}}, 0, "nothing"},
		{"wide JSON", http.Header{"X-App-Usage": {`{"a":1` + strings.Repeat(`,"a":2`, 1000) + `}`}}, 1, "nothing"},
		{"huge JSON", http.Header{"X-App-Usage": {`{"a":1` + strings.Repeat(" ", maxValue) + `}`}}, 0, "nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Parse(429, c.h, received)
			checkBounds(t, s)
			assert.Len(t, s.Limits, c.limit)
			first, _, _ := strings.Cut(summary(Signal{Wait: s.Wait, Told: s.Told, Source: s.Source, By: -1}), " |")
			assert.Equal(t, c.want, first)
			for range 5 { // which of too many are read does not depend on the map
				assert.Equal(t, s, Parse(429, renamed(c.h, strings.Clone), received))
			}
		})
	}
}

// TestUnchanged: Parse only reads, and what it returns is its own.
func TestUnchanged(t *testing.T) {
	for _, c := range corpus(t) {
		h := c.header()
		s := Parse(c.Status, h, c.Now)
		require.Equal(t, c.header(), h, c.ID)
		want := summary(s)
		for _, lines := range h {
			clear(lines)
		}
		clear(h)
		require.Equal(t, want, summary(s), c.ID)
	}
}
