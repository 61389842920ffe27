package retry

import (
	"net/http"
	"sync"
)

// Transport is an http.RoundTripper that tries again. It knows an idempotency
// key by its header (Idempotency-Key or X-Idempotency-Key) and takes it as the
// caller's word that a repeat acts once.
//
// The zero value is ready. A Transport must not be copied after its first use.
type Transport struct {
	Base   http.RoundTripper // nil: http.DefaultTransport
	Policy *Policy           // nil: the zero Policy

	state State
}

// calls keeps the memory of finished calls. No request, channel or timer is in
// it.
var calls = sync.Pool{New: func() any { return new(Call) }}

// RoundTrip sends the request, as often as the policy allows. It keeps the
// contract of http.RoundTripper; see Error for what it returns when no attempt
// was answered.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c := calls.Get().(*Call)
	c.Request, c.Policy, c.State = r, t.Policy, &t.state
	c.Vouched = hasKey(r.Header)
	c.Sender = (*plain)(t)
	resp, _, err := Do(c)
	c.Request, c.Policy, c.State, c.Sender = nil, nil, nil, nil
	calls.Put(c)
	return resp, err
}

// CloseIdleConnections closes those of the base.
func (t *Transport) CloseIdleConnections() {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// plain sends an attempt without further ado.
type plain Transport

func (p *plain) Send(a *Attempt) (*http.Response, error) { return a.RoundTrip(p.Base) }
