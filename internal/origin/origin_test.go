package origin_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/origin"
)

func TestOf(t *testing.T) {
	for in, want := range map[string]string{
		"http://a":                     "http://a:80",
		"https://API.example.com/v1?k": "https://api.example.com:443",
		"HTTP://u:p@a:8080/x":          "http://a:8080",
		"https://[::1]/":               "https://[::1]:443",
		"https://[::1]:8443":           "https://[::1]:8443",
		"http://a:":                    "http://a:80",
		"unix://sock":                  "unix://sock",
		"":                             "://",
	} {
		u, err := url.Parse(in)
		require.NoError(t, err)
		assert.Equal(t, want, origin.Of(u), in)
	}
	assert.Empty(t, origin.Of(nil))
}

func TestCacheAnswersAsOf(t *testing.T) {
	var c origin.Cache
	assert.Empty(t, c.Of(nil))
	a, b := &url.URL{Scheme: "http", Host: "A"}, &url.URL{Scheme: "https", Host: "A"}
	for range 2 {
		assert.Equal(t, "http://a:80", c.Of(a))
		assert.Equal(t, "https://a:443", c.Of(b))
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { c.Of(b) }))
}
