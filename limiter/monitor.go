package limiter

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Monitor counts what a Guard decides, in bounded memory, and shows it as JSON.
// It answers the questions that a limit raises once it is in force: is anybody
// close to it, how far does demand exceed it, and who is it that is refused.
//
//	m := &limiter.Monitor{}
//	g := &limiter.Guard{Rules: rules, Hooks: m.Hooks()}
//	internal.Handle("GET /limits", m) // not for the public: it names clients
//
// Its zero value is ready for use, by many goroutines at once. Fields must not
// change after first use, and it must not be copied.
//
// Keys are shown as the key functions made them. Those of this package put no
// secret in a key (ByAPIKey a hash); one of your own must not either. With the
// defaults a Monitor takes less than 2 MB, however many clients there are, and
// what it takes does not depend on what they send.
//
// The answer to GET is an object; names are not going to change, and there may
// be more of them:
//
//	since                    when counting began, as RFC 3339
//	seconds                  how long ago that is
//	near_below               the share of a quota below which little is left
//	requests                 of rules in force
//	  admitted, refused
//	  refused_share            of both
//	  near_limit, near_share   admitted with little left of the tightest limit, and their share of admitted
//	  degraded                 decided without the store
//	  overflowed               charged to an overflow entry
//	dry_run                  as requests, of rules on trial
//	limits                   those that were charged, with the largest excess first
//	  name, rule, quota        as they were made
//	  dry_run                  whether this is the limit on trial
//	  admitted, near_limit, near_share, refused   requests
//	  admitted_units, refused_units
//	  never                    requests that cost more than can ever pass: no part of refused_units
//	  window_seconds           of the limit; of a bucket the time to fill it; at least 1; 0 for a month
//	  windows                  the last ones in which units were refused, oldest first
//	    start
//	    refused_units            demand in it was as much above what was admitted
//	top_refused              who is refused most
//	  since, until             which time this is about; until is null for the time under way
//	  refusals                 in that time; a request that two limits refuse counts for both
//	  max_error                no key that is not listed was refused more often than this
//	  keys                     most refused first
//	    key, limit, dry_run
//	    refused, error           refused so often, or less often by up to error
//	top_refused_before       the same of the time before, or null
//	store                    of Memory, or null: keys, overflow_keys, bytes, overflowed
type Monitor struct {
	// NearBelow is the share of a quota that counts as little left. Zero: 0.2.
	// Negative: none.
	NearBelow float64

	// TopKeys is how many keys the list of the most refused is kept with: any key
	// with more than one in TopKeys of all refusals is in it. Zero: 100.
	// Negative: there is no list.
	TopKeys int

	// TopSpan is the time after which that list begins anew. The last complete
	// one stays to be seen. Zero: 1 h. Negative: never.
	TopSpan time.Duration

	// Windows is how many windows of each limit are kept. Zero: 12. Negative:
	// none.
	Windows int

	// MaxLimits is how many limits are told apart, by name and numbers; more are
	// counted together, as "other". Zero: 1,024.
	MaxLimits int

	// Memory, if set, is asked for its Stats when the Monitor is.
	Memory *Memory

	once     sync.Once
	start    time.Time
	live     requestCounts
	trial    requestCounts
	pointers sync.Map // *Limit → *limitCounts; a short cut to limits
	known    atomic.Int64

	mu     sync.Mutex // guards what follows
	limits map[limitID]*limitCounts
	other  *limitCounts

	top refusedKeys
}

// requestCounts count requests of rules in force, or of rules on trial.
type requestCounts struct {
	admitted, near, refused, degraded, overflowed atomic.Int64
}

// Hooks returns hooks that feed the Monitor. To have others as well, use
// [Hooks.Both].
func (m *Monitor) Hooks() *Hooks {
	m.begin()
	return &Hooks{Admitted: m.admitted, Refused: m.refused, Degraded: m.degraded, Overflowed: m.overflowed}
}

// begin starts the clock.
func (m *Monitor) begin() {
	m.once.Do(func() {
		m.start = time.Now()
		m.limits = map[limitID]*limitCounts{}
		m.other = &limitCounts{limitID: limitID{name: "other", window: time.Minute}}
	})
}

func (m *Monitor) counts(e *Event) *requestCounts {
	if e.DryRun {
		return &m.trial
	}
	return &m.live
}

func (m *Monitor) admitted(e Event) {
	c := m.counts(&e)
	c.admitted.Add(1)
	if e.Decision.Degraded != nil {
		return // the numbers are made up
	}
	below := orDefault(m.NearBelow, 0.2)
	if near(&e.Decision, below) {
		c.near.Add(1)
	}
	if len(e.Charges) == 0 || len(e.Decision.Each) != len(e.Charges) {
		m.limit(e.Limit).tally(e.DryRun).admit(e.Cost, near(&e.Decision, below))
		return
	}
	for i := range e.Charges {
		charge := &e.Charges[i]
		m.limit(charge.Limit).tally(e.DryRun).admit(charge.Cost, near(&e.Decision.Each[i], below))
	}
}

// near reports whether less than a share of the quota is left.
func near(d *Decision, below float64) bool {
	return float64(d.Remaining) < below*float64(d.Quota)
}

func (m *Monitor) refused(e Event) {
	m.counts(&e).refused.Add(1)
	if e.Decision.Degraded != nil {
		return // that there is no store is nobody's excess
	}
	now := time.Now()
	one := true
	if len(e.Decision.Each) == len(e.Charges) {
		for i := range e.Charges {
			if d := &e.Decision.Each[i]; !d.Allowed {
				m.refuse(e.Charges[i], d.Never, e.DryRun, now)
				one = false
			}
		}
	}
	if one { // a single charge, or a queue in which it would have waited too long
		m.refuse(Charge{e.Limit, e.Key, e.Cost}, e.Decision.Never, e.DryRun, now)
	}
}

func (m *Monitor) refuse(c Charge, never, trial bool, now time.Time) {
	l := m.limit(c.Limit)
	l.tally(trial).refuse(c.Cost, never, l.windowAt(now), int(orDefault(int64(m.Windows), 12)))
	if size := orDefault(int64(m.TopKeys), 100); size > 0 {
		m.top.add(refusedKey{l.name, shortKey(c.Key), trial}, int(size), orDefault(m.TopSpan, time.Hour), now)
	}
}

func (m *Monitor) degraded(e Event)   { m.counts(&e).degraded.Add(1) }
func (m *Monitor) overflowed(e Event) { m.counts(&e).overflowed.Add(1) }

// limit finds the counts of l.
func (m *Monitor) limit(l *Limit) *limitCounts {
	if c, ok := m.pointers.Load(l); ok {
		return c.(*limitCounts)
	}
	most := orDefault(int64(m.MaxLimits), 1024)
	id := identify(l)
	m.mu.Lock()
	c, ok := m.limits[id]
	switch {
	case ok:
	case int64(len(m.limits)) < most:
		c = &limitCounts{limitID: id}
		m.limits[id] = c
	default:
		c = m.other
	}
	m.mu.Unlock()
	// Limits that are made anew for every request must not fill the memory.
	if m.known.Add(1) > 4*most {
		m.pointers.Clear()
		m.known.Store(1)
	}
	m.pointers.Store(l, c)
	return c
}

// orDefault is a number set, the default for zero, and zero for a negative one.
func orDefault[N int64 | float64 | time.Duration](set, def N) N {
	if set == 0 {
		return def
	}
	return max(set, 0)
}

// A refusedKey is a key and the limit that refuses it.
type refusedKey struct {
	limit, key string
	trial      bool
}

// shortKey bounds a key that was not made by Key.
func shortKey(key string) string {
	if len(key) > maxKey {
		return Key(key)
	}
	return key
}

// own is k with text that keeps nothing else in memory.
func (k refusedKey) own() refusedKey {
	return refusedKey{k.limit, strings.Clone(k.key), k.trial}
}

// refusedKeys is the list of keys that are refused most.
type refusedKeys struct {
	mu      sync.Mutex // guards what follows
	now     *topKeys[refusedKey]
	since   time.Time
	before  *topKeys[refusedKey] // of the span before
	was     time.Time            // since when
	expired time.Time            // until when
}

func (t *refusedKeys) add(k refusedKey, size int, span time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(span, now)
	if t.now == nil {
		t.now, t.since = newTopKeys[refusedKey](size), now
	}
	t.now.add(k, 1, refusedKey.own)
}

// turn begins the list anew if its time is over. The caller holds the lock.
func (t *refusedKeys) turn(span time.Duration, now time.Time) {
	if t.now == nil || span == 0 || now.Sub(t.since) < span {
		return
	}
	t.before, t.was, t.expired = t.now, t.since, t.since.Add(span)
	t.now = nil
}
