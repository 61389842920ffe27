//go:build !race

package retry_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/retry"
)

// A call that goes well at once pays for no retry.
func TestSuccessAllocates(t *testing.T) {
	resp := &http.Response{StatusCode: 200, Body: http.NoBody}
	base := roundTrip(func(*http.Request) (*http.Response, error) { return resp, nil })
	for _, c := range []struct {
		name   string
		policy *retry.Policy
		r      *http.Request
		want   float64
	}{
		{"GET", nil, get(), 0},
		{"POST", nil, post(), 6},                     // a trace, for a proof
		{"POST with a key", nil, withKey(post()), 1}, // the copy that net/http cannot repeat
		{"with a timeout", &retry.Policy{AttemptTimeout: time.Minute}, get(), 0}, // one in nine calls
	} {
		tr := &retry.Transport{Base: base, Policy: c.policy}
		n := testing.AllocsPerRun(1000, func() { _, _ = tr.RoundTrip(c.r) })
		assert.Equal(t, c.want, n, c.name)
	}
}
