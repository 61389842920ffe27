// Package gradient finds out how many requests a server can work on at once, by
// how their latency answers to the limit.
package gradient

// Limit is an adaptive concurrency limit. The zero value is ready for use. It is
// pure: it takes the time from its caller, starts nothing and locks nothing, so
// one caller at a time.
type Limit struct {
	Min     int    // never below; zero: 1
	Max     int    // never above; zero: 1,000
	Initial int    // where it starts; zero: 20
	Seed    uint64 // differs from process to process, so that they do not probe together

	limit float64
}

// Sample tells the limit of one request that ended: the time it ended at in
// nanoseconds of any monotonic clock, how long it took from its admission, how
// many were in flight when it ended, itself included, and whether it was
// dropped: refused by what it called, or given up.
func (l *Limit) Sample(now, rtt int64, inFlight int, dropped bool) {}

// Limit returns how many may be in flight.
func (l *Limit) Limit() int {
	if l.limit == 0 {
		return 20
	}
	return int(l.limit)
}
