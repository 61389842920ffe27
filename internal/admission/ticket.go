package admission

// Ticket is one request's place. It is the owner's memory: embed or pool it, set
// the exported fields before Arrive, and leave them alone until it has ended.
// Then it may be used again. The zero value is a request of nobody in
// particular, Critical, without a deadline.
type Ticket struct {
	Tenant   string // "": nobody in particular; all such share one queue
	Known    bool   // Tenant is a customer that was authenticated, not whatever a request claims
	Weight   int    // of the tenant's share, of equals 1; zero and below: 1
	Class    Class  // what is above CriticalPlus or below Sheddable counts as that
	Deadline int64  // when the answer is worth nothing any more, in nanoseconds; zero: never

	// Nested marks a part of a request that is inside already and waits for it.
	// It uses its parent's slot: it is admitted at once and takes none. Waiting
	// behind others of its parent's class, it could wait for its own parent.
	Nested bool

	// Patient marks a producer that is to be slowed down instead of refused. It
	// waits until it is admitted, its deadline or Cancel; oldest first, whatever
	// the order; it is never pushed out and takes no place of Queue, so its
	// memory is bounded by how many producers there are.
	Patient bool

	// Ready is when the work was over and only sending was left, set before Leave;
	// zero: with Leave. What clients take to read is not what a request takes.
	Ready int64

	Value any // the owner's, such as the channel that wakes the request

	state    state
	at       int32 // in the Gate's expiries; -1: never expires
	arrived  int64
	admitted int64
	due      int64  // when it expires while it waits
	number   uint64 // of arrival in the queue
	flow     *flow  // while waiting
	older    *Ticket
	newer    *Ticket // in the flow; in the Gate's list of those pushed out, the next
}

type state uint8

const (
	idle state = iota
	waiting
	pushed // out of the queue, and Next has not told yet
	inside
	nested
)

// Waited is how long the ticket waited until it was admitted, in nanoseconds.
func (t *Ticket) Waited() int64 { return t.admitted - t.arrived }

// lane is the class as an index, the most important first.
func (t *Ticket) lane() int { return int(min(max(t.Class, CriticalPlus), Sheddable) - CriticalPlus) }

// share is the weight within bounds whose products with a queue's length fit.
func (t *Ticket) share() int { return min(max(t.Weight, 1), 1<<16) }
