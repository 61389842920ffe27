package shed

import (
	"net/http"
	"time"
)

// Reason says why a request was not let in.
type Reason string

// The reasons for a refusal.
const (
	Full      Reason = "full"       // the queue is full, or takes longer than MaxWait
	Displaced Reason = "displaced"  // it waited, and another took its place in the queue
	OverShare Reason = "over-share" // either of these, and its tenant has more than its share of the queue: 429
	WouldMiss Reason = "would-miss" // the client would be gone before an answer could be ready; no Retry-After
	Waited    Reason = "waited"     // it waited for MaxWait, or for as long as was useful
	Gone      Reason = "gone"       // the client left while it waited
	Shut      Reason = "shut"       // the limit is 0
)

// Hooks are called by a Gate for what it decides. Every field may be nil, and a
// nil hook costs a comparison. A hook runs in the goroutine of the request,
// outside every lock; it must return soon, for the request waits for it, and may
// be called from many goroutines at once.
type Hooks struct {
	Admitted func(Event) // it has a slot
	Queued   func(Event) // there was no slot; Admitted or Refused follows
	Refused  func(Event) // why is in Reason
}

// Event is one decision about one request.
type Event struct {
	Request *http.Request // nil for a caller of Gate.Wait
	Tenant  string
	Class   Class
	Attempt int           // as the client says; 1 if it does not
	Waited  time.Duration // in the queue, until now

	Reason     Reason        // of a refusal; else empty
	Status     int           // of a refusal's answer by HTTP: 503 or 429; else 0
	RetryAfter time.Duration // that it carries, whole seconds; else 0, as with WouldMiss
}

// event is what hooks are told.
func (v *visit) event(why Reason) Event {
	e := Event{Request: v.request, Tenant: v.ticket.Tenant, Class: v.class, Attempt: v.attempt, Waited: v.waited, Reason: why}
	if why != "" {
		e.Status, e.RetryAfter = why.status(), v.retryAfter
	}
	return e
}
