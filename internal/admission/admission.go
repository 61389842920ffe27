// Package admission decides how much is done at once, and by whom: a limit on
// what is inside, and a bounded queue in front of it. It is the engine of
// shed.Gate: no clock, no lock, no goroutine; its owner brings the time.
//
//	                 refused: Full, Late          dropped: Pushed, Expired
//	                          ▲                            ▲
//	Arrive ──► room inside? ──┴─no─► queue: class, tenant, order ──► Next ──► inside ──► Leave
//	                └────────────────────yes────────────────────────────────────▲
//
// The owner's part, under one lock:
//
//	v := g.Arrive(t, now)   // Admitted, Queued, or refused
//	for {                   // after Arrive, Leave, Cancel, SetLimit, and when Due has come
//		t, v := g.Next(now) // who is to be told, and what: Admitted, Pushed or Expired
//		if t == nil { break }
//		…
//	}
//
// A ticket that was Admitted, by either, ends with Leave; one that was Queued
// and whose client is gone ends with Cancel; every other verdict has ended it.
//
// # Who is next
//
//	class      the higher always before the lower
//	tenant     in turns, Weight times as often as one of weight 1; turns not used
//	           are saved, up to four
//	order      within a tenant: Wine the oldest, Milk the newest
//
// When the queue is full, the lowest class loses one, of that the tenant with
// the most waiting for its weight, of that the worst by the order: the newest of
// Wine, the oldest of Milk. That may be who has just come.
//
// Unknown tenants are counted while they wait. As many as MaxTenants, those who
// come most often, have a share each; all others have the share of one together
// and take turns within it, each name for itself. A tenant is found to come
// often if it does so more than once while all others come MaxTenants times. Who
// names himself anew each time has no more than that one share.
//
// # Time
//
// From the last thousand requests or so, and of the last seconds alone, the gate
// knows how long one takes and how fast the queue moves. A ticket is refused when
// the wait would be longer than MaxWait, or the wait and the service outlast its
// deadline; and it expires when either has come too near, wherever in the queue
// it is.
//
// The service counts as what the quickest took: requests are not all alike, and
// as long as there is room, to try one that will be too late costs nobody
// anything. Only for a second after the queue has lost one, by its length or by
// the wait, it counts as what it takes nine times of ten, and at most four
// medians: then a slot is worth more to others. Of a flood ten workers of 10 ms
// then serve more than 99 % of what they can, and of what they serve 99 % within
// 70 ms, at 1.5 times what they can do and at ten.
//
// What was slow counts for seconds: with every second in which nothing took as
// long it counts half. So after a stall the gate tries again, however few ask.
//
// # Bounds
//
// Nothing here grows with how many ask. A place of the queue costs about 250
// bytes beside the ticket, which is the owner's, and an unknown tenant about 80;
// with the defaults and 1,000 places it is half a MiB. To come and go while
// there is room costs less than reading the clock, and nothing is allocated.
package admission

import "time"

// DefaultMaxWait is the longest wait when Config says none. The queue's default
// length lets a request wait for two others at most, so this bounds the wait
// where requests take more than 100 ms each. Where ten of them take a second, a
// place comes free every 100 ms, and a shorter wait would leave some empty.
const DefaultMaxWait = 200 * time.Millisecond

// DefaultMaxTenants is how many unknown tenants are told apart when Config says
// nothing.
const DefaultMaxTenants = 1024

// Config is what a Gate does. The zero value admits nobody until SetLimit and
// has the documented defaults for the rest.
type Config struct {
	Limit int // how many may be inside; zero and below: nobody
	Queue int // how many may wait; zero: twice the limit, at least 16; negative: nobody
	Order Order

	// MaxWait is the longest wait in nanoseconds; zero: DefaultMaxWait;
	// negative: as long as the deadline lets.
	MaxWait int64

	// MaxTenants is how many unknown tenants have a share of their own; all
	// others have one share together. Zero: DefaultMaxTenants; negative: none.
	MaxTenants int
}

// Order says which of two waiting requests is better.
type Order uint8

const (
	Wine Order = iota // the older: served oldest first; full, the newest is dropped. For jobs and transfers.
	Milk              // the newer: served newest first; full, the oldest is dropped. For who sits before a screen.
)

// Class is how important a request is, with the names of the SRE book. A class
// goes before every class below it, and the lowest is dropped first.
type Class int8

const (
	CriticalPlus  Class = iota - 1 // the service is down for users without it
	Critical                       // the default
	SheddablePlus                  // a batch that may be tried again in minutes
	Sheddable                      // may fail for hours
)

// Verdict is what became of a ticket.
type Verdict uint8

const (
	Admitted Verdict = iota // inside, until Leave
	Queued                  // waiting, until Next tells or Cancel
	Full                    // refused: no room in the queue, or it takes longer than MaxWait
	Late                    // refused: what is left until the deadline is not enough
	Pushed                  // dropped from the queue, for one that comes before it
	Expired                 // dropped from the queue: MaxWait is over or the deadline is too near
	Gone                    // cancelled while waiting
)

// String is the verdict's name in lower case.
func (v Verdict) String() string {
	names := [...]string{"admitted", "queued", "full", "late", "pushed", "expired", "gone"}
	if int(v) < len(names) {
		return names[v]
	}
	return "unknown"
}
