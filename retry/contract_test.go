package retry_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/politehttp/polite/internal/rttest"
	"github.com/politehttp/polite/retry"
)

func TestContract(t *testing.T) {
	rttest.Run(t, func(base http.RoundTripper) http.RoundTripper {
		return &retry.Transport{Base: base}
	})
}

func TestContractWithAttemptTimeout(t *testing.T) {
	rttest.Run(t, func(base http.RoundTripper) http.RoundTripper {
		return &retry.Transport{Base: base, Policy: &retry.Policy{AttemptTimeout: time.Hour}}
	})
}

func TestContractWithFieldsOnTheWire(t *testing.T) {
	rttest.Run(t, func(base http.RoundTripper) http.RoundTripper {
		return &retry.Transport{Base: base, Policy: &retry.Policy{
			AttemptTimeout: time.Hour, AttemptHeader: retry.AttemptHeader, DeadlineHeader: retry.DeadlineHeader,
		}}
	}, rttest.Adds(retry.AttemptHeader, retry.DeadlineHeader))
}
