package limiter

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// Rate is Count units per Per, earned evenly: 6 per minute is one every ten
// seconds.
type Rate struct {
	Count int64
	Per   time.Duration
}

// Per returns the rate of count units in d.
func Per(count int64, d time.Duration) Rate { return Rate{count, d} }

// String returns the rate as "100 per 1m0s".
func (r Rate) String() string { return fmt.Sprintf("%d per %v", r.Count, r.Per) }

// Alignment says where the windows of [FixedWindow] start.
type Alignment int

const (
	// ToClock: at the multiples of the window since 1970-01-01 00:00 UTC. All
	// clients start anew at one instant, and many will be waiting for it.
	ToClock Alignment = iota
	// ToFirst: at a client's first admitted request, for each client anew.
	ToFirst
	// ToClockPerKey: as ToClock, but for each key earlier by a part of the window
	// that a hash of the key says, the same in every process and for ever.
	ToClockPerKey
)

// FailurePolicy says what is decided for a limit while the store that keeps it
// cannot be asked: by the store if it knows how to, else by the [Guard].
// [Memory] never fails.
type FailurePolicy int

const (
	// Open admits: an outage of the store is no outage of the service.
	Open FailurePolicy = iota
	// Closed refuses, for what is worse unlimited than down, such as a login.
	Closed
	// Local decides on this process's share of the limit, from the last known
	// level, as far as the store knows these.
	Local
)

// Limit is one rule with its numbers and a name. The constructors make it; the
// two fields may be set until it is first used. A [Memory] knows it by its pointer,
// but a store that processes share by its name: there names differ, or two are one.
type Limit struct {
	// Global marks a limit whose one key everybody shares, for stores that spread
	// keys over several machines.
	Global bool
	// OnFailure is the policy while the store fails. Zero: Open.
	OnFailure FailurePolicy

	name   string
	rule   *rule.Rule
	id     uint64 // what a Memory keeps states under
	old    *Limit // the limit that this one replaces, of another rule or other numbers
	period Period
	zone   *time.Location
}

var ids atomic.Uint64

// FixedWindow admits quota units in each window. It is the simplest to explain
// and to bill; at a boundary two windows' quotas can pass at once.
func FixedWindow(name string, quota int64, window time.Duration, align Alignment) (*Limit, error) {
	if align < ToClock || align > ToClockPerKey {
		return nil, fmt.Errorf("limiter: FixedWindow %q: alignment %d is none of ToClock, ToFirst and ToClockPerKey", name, align)
	}
	r, err := rule.NewFixedWindow(quota, int64(window), rule.Align(align))
	return newLimit("FixedWindow", name, r, err)
}

// SlidingLog admits quota units in any interval as long as the window, exactly:
// it remembers when each was admitted.
func SlidingLog(name string, quota int64, window time.Duration) (*Limit, error) {
	r, err := rule.NewSlidingLog(quota, int64(window))
	return newLimit("SlidingLog", name, r, err)
}

// SlidingCounter admits about quota units in any interval as long as the window:
// it takes those of the last clock-aligned window as evenly spread.
func SlidingCounter(name string, quota int64, window time.Duration) (*Limit, error) {
	r, err := rule.NewSlidingCounter(quota, int64(window))
	return newLimit("SlidingCounter", name, r, err)
}

// SlidingBuckets is [SlidingLog] with one count for each of cells equal parts of
// the window. It never admits more than the log.
func SlidingBuckets(name string, quota int64, window time.Duration, cells int) (*Limit, error) {
	r, err := rule.NewSlidingBuckets(quota, int64(window), cells)
	return newLimit("SlidingBuckets", name, r, err)
}

// TokenBucket admits rate, and after idling up to burst units at once.
func TokenBucket(name string, rate Rate, burst int64) (*Limit, error) {
	r, err := rule.NewBucket(rule.TokenBucket, rate.Count, int64(rate.Per), burst)
	return newLimit("TokenBucket", name, r, err)
}

// LeakyMeter admits while the level, which leaks at rate, stays within capacity.
// It is [TokenBucket] seen from the other side, and admits the same requests.
func LeakyMeter(name string, rate Rate, capacity int64) (*Limit, error) {
	r, err := rule.NewBucket(rule.LeakyMeter, rate.Count, int64(rate.Per), capacity)
	return newLimit("LeakyMeter", name, r, err)
}

// LeakyQueue lets at most capacity units wait, and one leave at each tick of
// rate. [Decision.Delay] says when an admitted request is to leave: the only one
// too waits a tick. Since those that follow were told when to leave, a place
// that is given back can only be the last: [Store].Refund makes the queue one
// shorter at its end, so refund nothing behind which others may have come.
func LeakyQueue(name string, rate Rate, capacity int64) (*Limit, error) {
	r, err := rule.NewBucket(rule.LeakyQueue, rate.Count, int64(rate.Per), capacity)
	return newLimit("LeakyQueue", name, r, err)
}

func newLimit(constructor, name string, r *rule.Rule, err error) (*Limit, error) {
	if err == nil {
		err = checkName(name)
	}
	if err != nil {
		return nil, fmt.Errorf("limiter: %s %q: %w", constructor, name, err)
	}
	if r.Kind() <= rule.LeakyQueue {
		r = r.Steady() // a Memory counts elapsed time
	}
	return &Limit{name: name, rule: r, id: ids.Add(1)}, nil
}

// checkName admits what can stand in the RateLimit fields of an answer, which
// name each limit by an RFC 9651 string.
func checkName(name string) error {
	if name == "" {
		return errors.New("the name is empty: answers and hooks tell limits apart by it")
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return errors.New("the name has a byte that is not printable ASCII, and cannot stand in a header field")
		}
	}
	return nil
}

// Name returns the name.
func (l *Limit) Name() string { return l.name }

// Kind returns the rule's name in lower case: "fixed_window", "sliding_log",
// "sliding_counter", "sliding_buckets", "token_bucket", "leaky_meter",
// "leaky_queue" or "calendar".
func (l *Limit) Kind() string { return l.rule.Kind().String() }

// Quota returns the quota, burst or capacity: the largest cost that can pass.
func (l *Limit) Quota() int64 { return l.rule.Quota() }

// Charge returns the charge of cost units to key.
func (l *Limit) Charge(key string, cost int64) Charge { return Charge{l, key, cost} }

// Window returns the length of the window. For a bucket it is how long a drained
// one takes to be full, rounded up; for a calendar quota 0.
func (l *Limit) Window() time.Duration { return time.Duration(l.rule.Window()) }

// Rate returns the rate of a bucket, and zero for the other rules.
func (l *Limit) Rate() Rate {
	count, period := l.rule.Rate()
	return Rate{count, time.Duration(period)}
}

// Burst returns what a bucket holds, its burst or capacity, and 0 for the other rules.
func (l *Limit) Burst() int64 {
	if l.Rate() == (Rate{}) {
		return 0
	}
	return l.rule.Quota()
}

// Cells returns the cells of SlidingBuckets, and 0 for the other rules.
func (l *Limit) Cells() int { return l.rule.Cells() }

// Align returns where the windows of a FixedWindow start.
func (l *Limit) Align() Alignment { return Alignment(l.rule.Align()) }

// Calendar returns the period and the zone of a calendar quota, and zeroes for
// the other rules.
func (l *Limit) Calendar() (Period, *time.Location) { return l.period, l.zone }

// Replacing returns l as the successor of old, whose numbers have changed: units
// in use under old stay in use, as far as they fit. Use what it returns in place
// of both. A Memory goes back 16 limits of other rates, windows or rules to find
// what a key has in use, and any number of other quotas. Stores elsewhere know
// limits by name, and need it not. Requests under way that still hold old may
// find it as new, and what keys in overflow have in use is not carried: change
// numbers now and then, not all the time. Who waits in a LeakyQueue was told when
// to leave, and does so also if it becomes shorter or slower; one that becomes
// faster lets others leave in between.
func (l *Limit) Replacing(old *Limit) *Limit {
	n := *l
	switch {
	case old == nil || old.id == l.id:
	case l.rule.Reads(old.rule):
		n.id, n.old = old.id, old.old
	default:
		n.old = old.recent(maxReplaced)
	}
	return &n
}

// recent returns l with so few of the limits before it that there are n in all,
// or else a process that changes a limit for years would keep them all.
func (l *Limit) recent(n int) *Limit {
	if l == nil || n == 0 {
		return nil
	}
	c := *l
	c.old = l.old.recent(n - 1)
	return &c
}
