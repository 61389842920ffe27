package limiter

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/limiter/clientip"
)

// A bill is what one request is charged, and what became of it. Bills are used
// again, but only with a store that is known not to keep what it is given.
type bill struct {
	charges []Charge
	owners  []int32 // beside charges: the index of the rule
	each    []Decision
	local   bool // charges to limits that are Local were made in guard.local

	trial       []Charge // of rules on trial
	trialOwners []int32
	onTrial     bool // charges are those

	text []byte // for fields and bodies
}

var bills = sync.Pool{New: func() any { return new(bill) }}

func (g *guard) newBill() *bill {
	if g.memory == nil {
		return new(bill)
	}
	return bills.Get().(*bill)
}

// done ends the use of the bill.
func (b *bill) done(g *guard) {
	if g.memory == nil || cap(b.charges) > 64 || cap(b.trial) > 64 || cap(b.text) > 16<<10 {
		return
	}
	// What is left behind the ends keeps a few keys and limits alive, no more.
	b.charges, b.owners, b.trial, b.trialOwners = b.charges[:0], b.owners[:0], b.trial[:0], b.trialOwners[:0]
	b.each, b.onTrial, b.text = b.each[:0], false, b.text[:0]
	bills.Put(b)
}

// mostUnits bounds a cost for limits of less than that, so that a few can be
// summed by whoever does it without looking. Larger limits bound it themselves.
const mostUnits = 1 << 53

// collect finds the charges of all rules that apply to r. It reports false if a
// rule has no limit for it.
func (b *bill) collect(g *guard, r *http.Request) bool {
	for i := range g.rules {
		ru := &g.rules[i]
		if !ru.matcher.matches(r) || ru.Exempt != nil && ru.Exempt(r) {
			continue
		}
		cost := int64(1)
		if ru.Cost != nil {
			if cost = ru.Cost(r); cost == 0 {
				continue
			}
			if cost < 0 {
				cost = 1
			}
		}
		limits := ru.Limits
		if ru.Tier != nil {
			limits = ru.Tier(r)
			if !areLimits(limits) {
				if ru.DryRun {
					continue
				}
				return false
			}
		}
		key := identity(r, ru.Key(r))
		charges, owners := &b.charges, &b.owners
		if ru.DryRun {
			charges, owners = &b.trial, &b.trialOwners
		}
		for _, l := range limits {
			if l != nil {
				*charges = append(*charges, l.Charge(key, min(cost, max(mostUnits, l.Quota()+1))))
				*owners = append(*owners, int32(i))
			}
		}
	}
	return true
}

// areLimits reports whether there is a limit among what Tier returned, and
// nothing that is none, such as what a constructor returns with an error.
func areLimits(limits []*Limit) bool {
	some := false
	for _, l := range limits {
		if l != nil && l.rule == nil {
			return false
		}
		some = some || l != nil
	}
	return some
}

// nobody begins the keys of requests without an identity.
const nobody = "nobody|"

// identity is the key that a request is charged to: the rule's own, or the
// address of the connection. No key of the one kind is one of the other, for
// after nobody there is a bar in those that a rule made, and never in the rest.
func identity(r *http.Request, key string) string {
	if key == "" {
		var space [64]byte
		var connection *clientip.Source
		return string(connection.AppendKey(append(space[:0], nobody...), r))
	}
	if strings.HasPrefix(key, nobody) {
		return nobody + "|" + key
	}
	return key
}

// take makes the charges. If the store cannot, the policies of the limits
// decide.
func (b *bill) take(g *guard, ctx context.Context) Decision {
	var d Decision
	var err error
	if g.memory != nil {
		d, err = g.memory.TakeInto(ctx, b.room(), b.charges...)
	} else {
		d, err = g.store.Take(ctx, b.charges...)
	}
	if b.local = err != nil; b.local {
		d = g.withoutStore(ctx, b.charges, err)
	}
	return b.keep(d)
}

// room is where a Memory puts decisions.
func (b *bill) room() []Decision {
	n := len(b.charges)
	b.each = slices.Grow(b.each[:0], n)[:n]
	return b.each
}

// keep puts the decisions on the charges beside them.
func (b *bill) keep(d Decision) Decision {
	switch n := len(b.charges); {
	case n == 1:
		b.each = append(b.each[:0], d)
	case len(d.Each) == n:
		b.each = d.Each
	default: // no store should; what is known of one limit then stands for all
		b.each = b.each[:0]
		for range b.charges {
			b.each = append(b.each, d)
		}
	}
	return d
}

// withoutStore is the decision on charges that a store could not be asked for:
// refused if any limit is Closed. Those that are Local are charged here; what
// they had used in the store is not known, nor who else does so.
func (g *guard) withoutStore(ctx context.Context, charges []Charge, err error) Decision {
	d := Decision{Allowed: true, By: charges[0].Limit, Degraded: err}
	var local []Charge
	for _, c := range charges {
		switch c.Limit.OnFailure {
		case Closed:
			return Decision{By: c.Limit, Degraded: err}
		case Local:
			local = append(local, c)
		}
	}
	if len(local) == 0 {
		return d
	}
	own, fault := g.local.Take(ctx, local...)
	if fault != nil {
		return d // the charges make no sense, which is why the store failed
	}
	parts := own.Each
	if len(local) == 1 {
		parts = []Decision{own}
	}
	own.Degraded, own.Each = err, make([]Decision, len(charges))
	for i, c := range charges {
		if own.Each[i].Allowed = true; c.Limit.OnFailure == Local {
			own.Each[i], parts = parts[0], parts[1:]
		}
		own.Each[i].Degraded = err
	}
	return own
}

// deciding is the index of the charge that decided.
func (b *bill) deciding(d *Decision) int {
	for i, c := range b.charges {
		if c.Limit == d.By && (d.Allowed || !b.each[i].Allowed) {
			return i
		}
	}
	return 0
}

// untilMore is how long until more units are there than the i-th decision, which
// is of so long ago, has left; known says that it is known. Of a sliding window
// it tells that only if it refuses; to ask costs little of a Memory alone.
func (b *bill) untilMore(g *guard, i int, ago time.Duration) (t time.Duration, known bool) {
	l, d := b.charges[i].Limit, &b.each[i]
	known = true
	if slides(l) {
		if d.Allowed && g.memory != nil {
			return g.memory.untilMore(&b.charges[i], max(d.Remaining, 0), d.Overflow), true
		}
		known = d.Remaining <= 0 || g.memory != nil
	}
	return untilMore(l, d) - ago, known
}

func slides(l *Limit) bool {
	switch l.rule.Kind() {
	case rule.SlidingLog, rule.SlidingCounter, rule.SlidingBuckets:
		return true
	}
	return false
}

// refund gives the charges back that were just made, where they were. A store that
// fails keeps them, which errs on the safe side; and so does one that let a
// policy answer, for what it has charged is not known.
func (b *bill) refund(g *guard, ctx context.Context, d *Decision) {
	ctx = context.WithoutCancel(ctx) // that it ended may be why
	switch {
	case b.local:
		local := slices.DeleteFunc(slices.Clone(b.charges), func(c Charge) bool { return c.Limit.OnFailure != Local })
		_ = g.local.Refund(ctx, local...)
	case d.Degraded == nil:
		_ = g.store.Refund(ctx, b.charges...)
	}
}
