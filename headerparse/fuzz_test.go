package headerparse

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// block writes headers as lines, and unblock reads them back with names in
// lower case.
func block(headers map[string][]string) string {
	var b strings.Builder
	for name, lines := range headers {
		for _, line := range lines {
			b.WriteString(name + ":" + line + "\n")
		}
	}
	return b.String()
}

func unblock(s string) map[string][]string {
	h := map[string][]string{}
	for line := range strings.SplitSeq(s, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			name = asciiCase(name, false)
			h[name] = append(h[name], value)
		}
	}
	return h
}

func asciiCase(s string, upper bool) string {
	b := []byte(s)
	for i, c := range b {
		switch {
		case upper && 'a' <= c && c <= 'z':
			b[i] = c - 0x20
		case !upper && 'A' <= c && c <= 'Z':
			b[i] = c + 0x20
		}
	}
	return string(b)
}

// renamed copies h into a new map, which ranges in another order.
func renamed(h map[string][]string, name func(string) string) http.Header {
	out := http.Header{}
	for k, v := range h {
		out[name(k)] = v
	}
	return out
}

func FuzzParse(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add(c.Status, c.Now.Unix(), block(c.Headers))
	}
	f.Add(429, int64(0), "ratelimit:\"a\";r=0;t=@\nratelimit-policy:\"a\";q=5;w=60;x=%\"hi\"")
	f.Fuzz(func(t *testing.T, status int, unix int64, s string) {
		h := unblock(s)
		now := time.Unix(unix, 0)
		want := Parse(status, renamed(h, strings.Clone), now)
		checkBounds(t, want)
		for _, name := range []func(string) string{
			http.CanonicalHeaderKey,
			func(s string) string { return asciiCase(s, true) },
			strings.Clone,
		} {
			require.Equal(t, want, Parse(status, renamed(h, name), now))
		}
		// The names of every field in both spellings, as only a program that
		// fills the map by hand can do.
		both := func() http.Header {
			out := renamed(h, strings.Clone)
			for k, v := range h {
				out[asciiCase(k, true)] = slices.Clone(v)
			}
			return out
		}
		require.Equal(t, Parse(status, both(), now), Parse(status, both(), now))
	})
}

// TestOrder parses headers with many fields again and again, in maps that
// range differently, and with names in every case.
func TestOrder(t *testing.T) {
	for _, c := range corpus(t) {
		want := Parse(c.Status, c.header(), c.Now)
		for i := range 20 {
			h := renamed(c.Headers, func(s string) string {
				switch i % 3 {
				case 0:
					return asciiCase(s, true)
				case 1:
					return asciiCase(s, false)
				}
				return http.CanonicalHeaderKey(s)
			})
			require.Equal(t, want, Parse(c.Status, h, c.Now), c.ID)
		}
	}
}

// TestSpellings has one field under two spellings of its name: the answer is
// that of the two lines, whichever came under which.
func TestSpellings(t *testing.T) {
	for range 20 {
		for _, swap := range []bool{false, true} {
			a, b := "10", "20"
			if swap {
				a, b = b, a
			}
			h := http.Header{"Retry-After": {a}, "retry-after": {b}}
			assert.Equal(t, "20s Retry-After", summary(Parse(429, h, received)))

			h = http.Header{
				"X-Ratelimit-Reset": {a}, "x-ratelimit-reset": {b}, "X-RATELIMIT-REMAINING": {"0"},
				"Date": {"x" + a}, "date": {"x" + b}, "age": {"0"}, "Age": {"0"},
			}
			assert.Equal(t, "10s X-Ratelimit-Reset by 0 | 0/? reset 10s", summary(Parse(429, h, received)))

			early, late := "Sun, 01 Mar 2026 12:00:00 GMT", "Sun, 01 Mar 2026 12:01:00 GMT"
			if swap {
				early, late = late, early
			}
			h = http.Header{"Date": {early}, "date": {late}, "Retry-After": {"Sun, 01 Mar 2026 12:02:00 GMT"}}
			assert.Equal(t, "2m0s Retry-After", summary(Parse(429, h, received)))
		}
	}
}
