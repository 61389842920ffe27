package quota

import (
	"context"
	"sync"
	"time"
)

// Tally names one count: what a key has used of a quota in one period. Quota,
// Key and Start tell counts apart.
type Tally struct {
	Quota, Key string
	Limit      int64     // at least 0; math.MaxInt64: unbounded
	Start, End time.Time // the period [Start, End), in UTC; both zero: it never ends
}

// Store holds the counts of quotas. Its methods are called from many goroutines
// at once. A count that was never written is zero; one whose period has passed
// may be forgotten, and not before.
type Store interface {
	// Spend adds n to the count if the sum is at most t.Limit, and returns the
	// count after that; otherwise it changes nothing and returns the count as
	// it is. With n zero it changes nothing and says whether 1 would be granted.
	// If it returns an error nothing was granted, though a part of the count may
	// have been used up.
	Spend(ctx context.Context, t Tally, n int64) (used int64, granted bool, err error)

	// Settle adds delta, which may be negative, to the count, then raises it to
	// atLeast if it is lower, and never below zero; t.Limit has no say. It
	// returns the count after that. Its ctx is never cancelled: a store that may
	// hang brings its own deadline.
	Settle(ctx context.Context, t Tally, delta, atLeast int64) (used int64, err error)
}

// Memory is a Store in this process's memory. Its zero value is ready; it must
// not be copied after first use.
type Memory struct {
	// MaxKeys bounds the counts held, one per quota, key and period. At the
	// bound those whose period has passed go; if none has, a new key is refused
	// with an error and nothing is lost. Zero: 65,536. Negative: unbounded.
	MaxKeys int

	mu   sync.Mutex
	book book // guarded by mu
}

const defaultMaxCounts = 1 << 16

// Spend is as [Store] says.
func (m *Memory) Spend(ctx context.Context, t Tally, n int64) (used int64, granted bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, used, granted, err = m.book.spend(t, n, bound(m.MaxKeys, defaultMaxCounts))
	return used, granted, err
}

// Settle is as [Store] says.
func (m *Memory) Settle(ctx context.Context, t Tally, delta, atLeast int64) (used int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, used, _, err = m.book.settle(t, delta, atLeast, bound(m.MaxKeys, defaultMaxCounts))
	return used, err
}
