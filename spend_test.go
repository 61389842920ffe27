package polite_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

func TestQuotaIsRefundedOnlyOnProof(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(int, *http.Request) (*http.Response, error)
		left   int64
	}{
		{"success", answers(200), 7},
		{"failure answered", answers(500), 7},
		{"never connected", func(int, *http.Request) (*http.Response, error) { return nil, dialError() }, 10},
		{"uncertain", func(int, *http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 7},
		{"one of two tries uncertain", func(n int, _ *http.Request) (*http.Response, error) {
			if n == 1 {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, dialError()
		}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				day := &quota.Quota{Name: "segments", Limit: 10, Period: quota.Day}
				tr := &polite.Transport{
					Base: newProvider(c.answer), Quotas: []*quota.Quota{day}, Retry: &retry.Policy{MaxAttempts: 2},
					Cost: func(*http.Request) int64 { return 3 }, Account: func(*http.Request) string { return "acme" },
				}
				if resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "")); err == nil {
					resp.Body.Close()
				}
				left, err := day.Spend(t.Context(), "acme", 0)
				require.NoError(t, err)
				assert.Equal(t, c.left, left.Left)
			})
		})
	}
}

func TestQuotasAreSpentAllOrNone(t *testing.T) {
	p := newProvider(answers(200))
	big := &quota.Quota{Name: "month", Limit: 100, Period: quota.Month}
	small := &quota.Quota{Name: "day", Limit: 1, Period: quota.Day}
	tr := &polite.Transport{Base: p, Quotas: []*quota.Quota{big, small}}
	for i := range 3 {
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		if i == 0 {
			require.NoError(t, err)
			continue
		}
		var spent *quota.SpentError
		require.ErrorAs(t, err, &spent)
		assert.Equal(t, "day", spent.Quota)
	}
	assert.Len(t, p.at, 1, "a spent quota sends nothing")
	left, err := big.Spend(t.Context(), "http://api.test:80", 0)
	require.NoError(t, err)
	assert.EqualValues(t, 99, left.Left)
}

func TestQuotaPerAttemptAndActual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := &quota.Quota{Name: "tries", Limit: 100, Period: quota.Day, PerAttempt: true}
		tokens := &quota.Quota{
			Name: "tokens", Limit: 1000, Period: quota.Day, Cost: func(*http.Request) int64 { return 500 },
			Actual: func(r *http.Response) int64 {
				if r.StatusCode == 200 {
					return 123
				}
				return -1
			},
		}
		tr := &polite.Transport{Base: newProvider(answers(503, 503, 200)), Quotas: []*quota.Quota{tries, tokens}, Retry: &retry.Policy{}}
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		require.NoError(t, err)
		left, err := tries.Spend(t.Context(), "http://api.test:80", 0)
		require.NoError(t, err)
		assert.EqualValues(t, 97, left.Left)
		left, err = tokens.Spend(t.Context(), "http://api.test:80", 0)
		require.NoError(t, err)
		assert.EqualValues(t, 877, left.Left)
	})
}

// What only the answer can tell is counted from the answer, and a spent quota
// still refuses before anything is sent.
func TestQuotaOfUnknownCost(t *testing.T) {
	p := newProvider(answers(200))
	tokens := &quota.Quota{
		Name: "tokens", Limit: 100, Period: quota.Day,
		Cost:   func(*http.Request) int64 { return 0 },
		Actual: func(*http.Response) int64 { return 60 },
	}
	tr := &polite.Transport{Base: p, Quotas: []*quota.Quota{tokens}}
	for range 2 {
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		require.NoError(t, err)
	}
	_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
	var spent *quota.SpentError
	require.ErrorAs(t, err, &spent)
	assert.Len(t, p.at, 2)
}

// A quota of tries that is spent costs no token of the pacer's.
func TestASpentQuotaOfTriesCostsNoPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(answers(200))
		tries := &quota.Quota{Name: "tries", Limit: 1, Period: quota.Day, PerAttempt: true}
		pace := &pacer.Pacer{Rate: pacer.Per(2, time.Hour), Burst: 2}
		tr := &polite.Transport{Base: p, Quotas: []*quota.Quota{tries}, Pacer: pace}
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		require.NoError(t, err)
		for range 5 {
			_, err = tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
			var spent *quota.SpentError
			require.ErrorAs(t, err, &spent)
		}
		start := time.Now()
		_, err = pace.Wait(t.Context(), "http://api.test:80", 1)
		require.NoError(t, err)
		assert.Zero(t, time.Since(start))
	})
}

// What the pacer refuses was no try.
func TestARefusedTryIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := &quota.Quota{Name: "tries", Limit: 10, Period: quota.Day, PerAttempt: true}
		tr := &polite.Transport{
			Base: newProvider(answers(200)), Quotas: []*quota.Quota{tries},
			Pacer: &pacer.Pacer{Rate: pacer.Per(1, time.Hour), Burst: 1},
			Cost:  func(*http.Request) int64 { return 1 },
		}
		for range 5 {
			tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		}
		left, err := tries.Spend(t.Context(), "http://api.test:80", 0)
		require.NoError(t, err)
		assert.EqualValues(t, 9, left.Left)
	})
}

func TestNothingToPaceIsNothingToPay(t *testing.T) {
	tr := &polite.Transport{
		Base: newProvider(answers(200)), Quotas: []*quota.Quota{{Name: "day", Limit: 1, Period: quota.Day}},
		Cost: func(*http.Request) int64 { return -1 },
	}
	for range 3 {
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		require.NoError(t, err)
	}
}

// A provider's limit in requests corrects no quota that counts tokens.
func TestTheProvidersRequestsAreNotOurTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(func(_ int, r *http.Request) (*http.Response, error) {
			return reply(r, 200, "RateLimit-Policy", `"day";q=1000;w=86400`, "RateLimit", `"day";r=10;t=43200`), nil
		})
		own := &quota.Quota{Name: "tokens", Limit: 1e6, Period: quota.Day, Cost: func(*http.Request) int64 { return 500 }}
		shared := &quota.Quota{Name: "units", Limit: 1e6, Period: quota.Day}
		calls := &quota.Quota{Name: "calls", Limit: 1000, Period: quota.Day, Cost: nil}
		time.Sleep(12 * time.Hour)
		tr := &polite.Transport{Base: p, Quotas: []*quota.Quota{own, shared}, Cost: func(*http.Request) int64 { return 500 }}
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		require.NoError(t, err)
		for _, q := range tr.Quotas {
			left, err := q.Spend(t.Context(), "http://api.test:80", 0)
			require.NoError(t, err)
			assert.EqualValues(t, 1e6-500, left.Left, q.Name)
		}
		tr = &polite.Transport{Base: p, Quotas: []*quota.Quota{calls}}
		_, err = tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		require.NoError(t, err)
		left, err := calls.Spend(t.Context(), "http://api.test:80", 0)
		require.NoError(t, err)
		assert.EqualValues(t, 10, left.Left, "the same count in requests is the provider's word")
	})
}

// A call that a quota refuses is reported as one that the pacer refuses is.
func TestRefusedByQuotaIsReported(t *testing.T) {
	var gaveUp []observe.GaveUp
	tr := &polite.Transport{
		Base: newProvider(answers(200)), Quotas: []*quota.Quota{{Name: "day", Limit: 1, Period: quota.Day, Store: noStore{}}},
		Hooks: &observe.Hooks{GaveUp: func(_ context.Context, g observe.GaveUp) { gaveUp = append(gaveUp, g) }},
	}
	_, err := tr.RoundTrip(request(t, "POST", "http://api.test/", "x"))
	require.ErrorAs(t, err, new(*quota.StoreError))
	require.Len(t, gaveUp, 1)
	assert.Equal(t, observe.GaveUp{Attempt: observe.Attempt{Method: "POST", Host: "http://api.test:80", N: 1}, Err: err, Reason: observe.Refused}, gaveUp[0])
}

type noStore struct{}

func (noStore) Spend(context.Context, quota.Tally, int64) (int64, bool, error) {
	return 0, false, errors.New("away")
}

func (noStore) Settle(context.Context, quota.Tally, int64, int64) (int64, error) {
	return 0, errors.New("away")
}
