package rttest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChecksAreNumbered(t *testing.T) {
	require.Len(t, checks, Count)
	for i, c := range checks {
		assert.True(t, strings.HasPrefix(c.name, fmt.Sprintf("C%02d ", i+1)), c.name)
	}
}

func good(base http.RoundTripper) http.RoundTripper { return &reference{base: base} }

var (
	refuses = Refuses("closed", func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, errors.New("closed today")
		})
	})
	waits = Waits("an hour", func(base http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if err := new(reference).wait(r.Context(), time.Hour); err != nil {
				if r.Body != nil {
					_ = r.Body.Close()
				}
				return nil, err
			}
			return base.RoundTrip(r)
		})
	})
)

func TestAGoodTransportPasses(t *testing.T) {
	Run(t, good, refuses, waits)
}

func TestABareTransportPasses(t *testing.T) {
	Run(t, func(base http.RoundTripper) http.RoundTripper { return base }, WithoutRetry())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
