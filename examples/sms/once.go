package main

import "net/http"

// once sends by a transport that does not try again by itself. http.Transport
// does, when a kept connection turns out to be dead and the request has a key
// (Request.isReplayable in net/http): at once, and unseen by pace and hooks. It
// cannot without GetBody; the retries that are paced have no need of it here.
type once struct{ *http.Transport }

func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	copied := r.WithContext(r.Context())
	copied.GetBody = nil
	return o.Transport.RoundTrip(copied)
}
