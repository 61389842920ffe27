package admission

// Ticket is one request's place. It is the owner's memory: embed or pool it, set
// the exported fields before Arrive, and leave them alone until it has ended.
type Ticket struct {
	Tenant   string // "": nobody in particular; all such share one queue
	Known    bool   // Tenant is a customer that was authenticated, not whatever a request claims
	Weight   int    // of the tenant's share; zero and below: 1
	Class    Class
	Deadline int64 // when the answer is worth nothing any more, in nanoseconds; zero: never

	// Nested marks a part of a request that is inside already, and waits for it.
	// It uses its parent's slot, so it is admitted at once and counts for none:
	// waiting behind others of its parent's class it could wait for itself.
	Nested bool

	// Patient marks a producer that is to be slowed down instead of refused: it
	// waits until it is admitted, its deadline or Cancel, oldest first, is never
	// pushed out and takes no place of Queue.
	Patient bool

	Value any // the owner's, such as the channel that wakes the request

	state    state
	arrived  int64
	admitted int64
}

type state uint8

const (
	idle state = iota
	waiting
	inside
	nested
)

// Waited is how long the ticket waited until it was admitted, in nanoseconds.
func (t *Ticket) Waited() int64 { return t.admitted - t.arrived }
