package breaker

import "strconv"

// An Outcome is how a call went.
type Outcome int

// The outcomes. The package comment has a table of what each one does. The zero
// Outcome is Neutral, so that a deferred done which runs because of a panic
// gives no verdict.
const (
	Neutral     Outcome = iota // says nothing about the provider: the caller gave up, or nothing was sent
	Success                    // an answer in time
	Failure                    // an answer that is the provider's failure
	Unreachable                // no answer: the provider was not reached, or fell silent
	Throttled                  // the provider asked for fewer calls
)

// String returns the name in lower case.
func (o Outcome) String() string {
	switch o {
	case Neutral:
		return "neutral"
	case Success:
		return "success"
	case Failure:
		return "failure"
	case Unreachable:
		return "unreachable"
	case Throttled:
		return "throttled"
	}
	return "breaker.Outcome(" + strconv.Itoa(int(o)) + ")"
}

// A State is what a circuit does with calls.
type State int

// The states.
const (
	Closed   State = iota // calls pass
	Open                  // calls are refused
	HalfOpen              // one call at a time passes, to probe
)

// String returns "closed", "open" or "half-open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	}
	return "breaker.State(" + strconv.Itoa(int(s)) + ")"
}
