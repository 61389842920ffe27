// Package quota keeps long budgets: so much a day or a month, in the unit that
// the provider bills, with a forecast of when it will be spent.
//
//	                 Limit 1,000 a day, in segments
//	├───────────────────────────────┬──────────────┬─────────┤
//	0          spent            LowBelow: OnLow,   │       Limit: SpentError
//	           Spend ──►          QuotaLow         │         QuotaSpent
//	           ◄── Refund  (provably never processed)
//	           ◄─► Settle  (what it cost is known now)
//	           ──► Observe (the provider has counted more than we have)
//
// A [Quota] counts for each key what was spent in the current [Period], the
// half-open interval from its start to the start of the next one:
//
//	Period              starts                                    lasts
//	Day                 with the date, in Location                23, 24 or 25 hours
//	Week                with Monday's date, in Location           7 days
//	Month               with the first's date, in Location        28 to 31 days
//	15 * time.Minute    at multiples since 1970-01-01 00:00 UTC   exactly that long
//	0                   never                                     for ever: a prepaid balance
//
// Where midnight does not exist the day starts with the first instant after the
// gap; where it happens twice, with the first of the two.
//
// Where the count lives is up to a [Store]:
//
//	Memory     this process, gone when it ends; the default
//	FileStore  one process at a time; survives a crash and kill -9
//	your own   any number of processes, over a database that they share
//
// What is guaranteed:
//   - Spend is all or nothing, and the sum of what it grants in one period never
//     exceeds Limit, from however many goroutines.
//   - What was spent stays spent: with a durable store Spend returns only once
//     the count is on disk. A call of uncertain end is not given back.
//   - A store that fails refuses ([StoreError]); so does one that is full of
//     counts that still run. No count is ever dropped while its period runs.
//   - What concerns a period that has passed changes nothing of the new one.
//   - A clock that steps back, be it over the end of a period, creates no units:
//     it finds the count of the earlier period as it was left, unless MaxKeys
//     needed the room meanwhile.
//   - Two quotas with one Name, one Period and one Store are one quota.
package quota

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"time"
)

// Quota is a budget for each key and period. Its fields do not change after
// first use; it must not be copied after that. It may be used from many
// goroutines, and by many Transports.
type Quota struct {
	// Name is what errors, hooks and stores call it, and what the provider may
	// call the limit (see Observe). It may be empty only if Store is nil.
	Name string
	// Limit is how much each key may spend in one period. Zero: nothing.
	// Negative: everything is granted and only counted.
	Limit int64
	// Period is Day, Week, Month or a length. Zero: it never starts anew.
	Period Period
	// Location is the zone whose calendar Day, Week and Month follow. Nil: UTC.
	Location *time.Location
	// Cost is what a request costs. Nil: what Transport.Cost says.
	Cost func(*http.Request) int64
	// Actual is what a call cost in the end, e.g. tokens that only the answer
	// tells. It must leave the body to the caller. Nil: Cost stands.
	Actual func(*http.Response) int64
	// PerAttempt spends for every try instead of once per call: for providers
	// that bill what they refuse.
	PerAttempt bool
	// Store holds the counts. Nil: memory of this Quota's own.
	Store Store
	// LowBelow is the share of Limit at or below which what is left is low.
	// Zero: 0.1. Negative: never.
	LowBelow float64
	// OnLow is called when what is left becomes low, once for each key and
	// period, by the goroutine that noticed and outside every lock. Nil: nobody
	// is called.
	OnLow func(Left)
	// MaxKeys bounds what this Quota itself remembers: the counts, if Store is
	// nil, and for which keys OnLow was called. Zero: 4,096. Negative: unbounded.
	MaxKeys int

	ready  atomic.Pointer[ready]
	levels levels
}

// Left is what a [Quota.Spend] took and what it left. Refund and Settle need it
// as it is.
type Left struct {
	Quota, Key string
	Limit      int64     // as the Quota's
	Left       int64     // after this Spend; never negative
	Amount     int64     // what this Spend took
	Starts     time.Time // when the period it was taken from started; zero: it always ran
	Resets     time.Time // when the next one starts; zero: never
	// SpentAt is the forecast: when nothing will be left, if spending goes on
	// at the average pace of this period so far (with a Period of zero: since
	// this process first spent). Zero: not before Resets.
	SpentAt time.Time
}

const (
	defaultMaxKeys = 4096
	maxName        = 4096 // bytes of a quota's name, and of a key
)

// Check reports what is wrong with the fields, and nil if nothing is. Spend
// fails with the same error. It asks a Store that has such a method, too.
func (q *Quota) Check() error {
	if err := q.setup().err; err != nil {
		return err
	}
	if store, ok := q.Store.(interface{ Check() error }); ok {
		if err := store.Check(); err != nil {
			return fmt.Errorf("quota: %q: Quota.Store: %w", q.Name, err)
		}
	}
	return nil
}

// Spend takes n units of key's quota, or nothing. It fails with a [*SpentError]
// if fewer than n are left, with a [*StoreError] if the store failed, with ctx's
// error if ctx has ended, and for a negative n. An n of zero asks whether 1
// would be granted, takes nothing and reports to no hook.
func (q *Quota) Spend(ctx context.Context, key string, n int64) (Left, error) {
	r := q.setup()
	switch {
	case r.err != nil:
		return Left{}, r.err
	case n < 0:
		return Left{}, fmt.Errorf("quota: %q: Spend of %d: an amount is zero or more", q.Name, n)
	case len(key) > maxName:
		return Left{}, fmt.Errorf("quota: %q: a key of %d bytes: at most %d are allowed", q.Name, len(key), maxName)
	case ctx.Err() != nil:
		return Left{}, ctx.Err()
	}
	now := time.Now()
	t := q.tally(r, key, now)
	used, granted, err := r.store.Spend(ctx, t, n)
	if err != nil {
		return Left{}, q.failed(ctx, err)
	}
	if granted {
		l := q.left(t, used, n)
		q.noticed(ctx, r, &l, used, now)
		return l, nil
	}
	l := q.left(t, used, 0)
	if n > 0 {
		q.noticed(ctx, r, &l, used, now)
		q.reportSpent(ctx, &l)
	}
	return Left{}, &SpentError{Quota: q.Name, Key: key, Limit: q.Limit, Asked: n, Left: l.Left, Resets: l.Resets}
}

// Refund gives back what a Spend took, as if the call had cost nothing. If the
// period it was taken from has passed, nothing happens. A count never falls
// below zero, but giving back only once is the caller's duty: a second Refund of
// the same Left gives back another call's units. It goes through even if ctx has
// ended. An error means that the units stay spent.
func (q *Quota) Refund(ctx context.Context, key string, l Left) error {
	return q.Settle(ctx, key, l, 0)
}

// Settle replaces the amount that a Spend took by the actual one, which may be
// smaller or larger: what has been used is counted even beyond Limit, and the
// next Spend is refused. For the rest it is like Refund; it is not to be called
// twice for one Left.
func (q *Quota) Settle(ctx context.Context, key string, l Left, actual int64) error {
	r := q.setup()
	switch {
	case r.err != nil:
		return r.err
	case actual < 0 || l.Amount < 0:
		return fmt.Errorf("quota: %q: Settle of %d to %d: an amount is zero or more", q.Name, l.Amount, actual)
	case actual == l.Amount:
		return nil
	case l.Quota != q.Name || l.Key != key:
		return fmt.Errorf("quota: %q: a Left of quota %q is settled, or one of another key", q.Name, l.Quota)
	}
	now := time.Now()
	if !l.Resets.IsZero() && !now.Before(l.Resets) {
		return nil
	}
	t := Tally{Quota: q.Name, Key: key, Limit: r.limit, Start: l.Starts, End: l.Resets}
	used, err := r.store.Settle(context.WithoutCancel(ctx), t, actual-l.Amount, 0)
	if err != nil {
		return q.failed(ctx, err)
	}
	after := q.left(t, used, 0)
	q.noticed(ctx, r, &after, used, now)
	return nil
}

// ready is what is derived from the fields at first use.
type ready struct {
	err    error
	limit  int64 // math.MaxInt64: unbounded
	low    int64 // what is left is low at or below it; negative: never
	store  Store
	far    bool // the store may be far away: remember what it said
	zone   *time.Location
	period atomic.Pointer[interval] // the last one, for most calls fall into the same
}

func (q *Quota) setup() *ready {
	if r := q.ready.Load(); r != nil {
		return r
	}
	r := &ready{limit: q.Limit, low: -1, store: q.Store, zone: q.Location}
	if r.zone == nil {
		r.zone = time.UTC
	}
	if r.limit < 0 {
		r.limit = math.MaxInt64
	}
	share := q.LowBelow
	if share == 0 {
		share = 0.1
	}
	if q.Limit > 0 && share > 0 {
		r.low = int64(math.Min(share, 1) * float64(q.Limit))
	}
	if r.store == nil {
		r.store = &Memory{MaxKeys: bound(q.MaxKeys, defaultMaxKeys)}
	}
	switch r.store.(type) {
	case *Memory, *FileStore:
	default:
		r.far = true
	}
	r.err = q.check()
	q.ready.CompareAndSwap(nil, r) // whoever came first made the store that counts
	return q.ready.Load()
}

func (q *Quota) check() error {
	switch {
	case q.Store != nil && q.Name == "":
		return errors.New("quota: Name is empty: a Store needs it to tell quotas apart")
	case len(q.Name) > maxName:
		return fmt.Errorf("quota: Name has %d bytes: at most %d are allowed", len(q.Name), maxName)
	case q.Period < Month:
		return fmt.Errorf("quota: %q: Period is %d: want Day, Week, Month, a positive length, or zero for never", q.Name, int64(q.Period))
	case q.LowBelow != q.LowBelow || q.LowBelow > 1:
		return fmt.Errorf("quota: %q: LowBelow is %v: want a share of at most 1, or a negative number for never", q.Name, q.LowBelow)
	}
	return nil
}

// tally names the count that key has at now.
func (q *Quota) tally(r *ready, key string, now time.Time) Tally {
	t := Tally{Quota: q.Name, Key: key, Limit: r.limit}
	if q.Period == 0 {
		return t
	}
	at := r.period.Load()
	if at == nil || !at.holds(now) {
		in := q.Period.interval(now, r.zone)
		at = &in
		r.period.Store(at)
	}
	t.Start, t.End = at.start, at.end
	return t
}

func (q *Quota) left(t Tally, used, amount int64) Left {
	return Left{
		Quota: q.Name, Key: t.Key, Limit: q.Limit,
		Left: max(0, t.Limit-used), Amount: amount,
		Starts: t.Start, Resets: t.End,
	}
}

// bound reads a field that bounds a map: zero is the default, negative is no
// bound.
func bound(field, zero int) int {
	switch {
	case field == 0:
		return zero
	case field < 0:
		return math.MaxInt
	}
	return field
}
