package polite

import (
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/retry"
)

// checkParts finds what a configuration file could get wrong.
func (t *Transport) checkParts() error {
	for i, q := range t.Quotas {
		if q == nil {
			return fmt.Errorf("polite: Transport.Quotas[%d] is nil; leave it out", i)
		}
		if err := q.Check(); err != nil {
			return fmt.Errorf("polite: Transport.Quotas[%d]: %w", i, err)
		}
	}
	if err := checkRetry(t.Retry); err != nil {
		return err
	}
	if err := checkThrottle(t.Throttle); err != nil {
		return err
	}
	if err := checkPacer("Transport.Pacer", t.Pacer); err != nil {
		return err
	}
	for i, l := range t.Lanes {
		if err := checkPacer(fmt.Sprintf("Transport.Lanes[%d].Pacer", i), l.Pacer); err != nil {
			return err
		}
	}
	return nil
}

func checkPacer(name string, p *pacer.Pacer) error {
	if p == nil {
		return nil
	}
	// Half a rate would be none, and nobody would notice.
	if r := p.Rate; (r.Count > 0) != (r.Per > 0) {
		return fmt.Errorf("polite: %s.Rate is %d per %v; a rate needs both, as pacer.Per(10, time.Second) makes it, and no rate neither", name, r.Count, r.Per)
	}
	if err := p.Check(); err != nil {
		return fmt.Errorf("polite: %s: %w", name, err)
	}
	return nil
}

// checkRetry finds names of fields that no request can carry: each attempt
// would fail, and as if the provider were down.
func checkRetry(p *retry.Policy) error {
	if p == nil {
		return nil
	}
	for _, field := range [...]struct{ name, value string }{
		{"AttemptHeader", p.AttemptHeader}, {"DeadlineHeader", p.DeadlineHeader},
	} {
		if strings.Trim(strings.ToLower(field.value), "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") != "" {
			return fmt.Errorf("polite: Transport.Retry.%s is %q; allowed is the name of a header field, such as Request-Attempt", field.name, field.value)
		}
	}
	if p.AttemptHeader != "" && http.CanonicalHeaderKey(p.AttemptHeader) == http.CanonicalHeaderKey(p.DeadlineHeader) {
		return fmt.Errorf("polite: Transport.Retry.AttemptHeader and DeadlineHeader are both %q; each needs a name of its own", p.AttemptHeader)
	}
	return nil
}

// checkThrottle finds numbers from which no share can be worked out.
func checkThrottle(t *breaker.Throttle) error {
	if t != nil && (math.IsNaN(t.K) || math.IsNaN(t.MaxReject)) {
		return fmt.Errorf("polite: Transport.Throttle.K is %v and MaxReject %v; allowed are numbers", t.K, t.MaxReject)
	}
	return nil
}
