package limiter

import (
	"errors"
	"net/http"
)

// errNotAsked stands for a decision that nobody made.
var errNotAsked = errors.New("limiter: no limit has decided")

// Refuse answers a request that d does not admit as a [Guard] would: with the
// same status, fields and body. It is for a handler that has called Take itself,
// for what it charges stands where no Guard looks, such as in a form. It must be
// called before anything else is written, and the handler should then return.
//
// The answer is 429 with Retry-After, RateLimit and RateLimit-Policy, or without
// Retry-After if d.Never. It is 503 if d is of a store that failed and a limit that
// is Closed; and also if d names no limit, as the Decision beside the error of a
// Take does, which so is refused rather than let through. A d that is Allowed is
// a mistake, and Refuse panics.
//
// A Decision does not say what the request cost, so neither does the body, and
// charges to several keys of one limit are one item, of the key that refuses
// longest. Contact, Partition, Degrade and Hooks are a Guard's; of these Refuse
// knows nothing.
//
// Behind a Guard, RateLimit and RateLimit-Policy have its items already. They
// stay, for they are true, and those of d are added, as with two Guards in one
// another: limits should differ in name from the Guard's. The Guard has
// charged the request, and Retry-After knows nothing of its limits. Where it has
// set Legacy fields, these are set to the limit that refuses.
func Refuse(w http.ResponseWriter, r *http.Request, d Decision) {
	if d.Allowed {
		panic("limiter: Refuse: Decision.Allowed is true; only what is not allowed can be refused")
	}
	if d.By == nil && d.Degraded == nil {
		d.Degraded = errNotAsked
	}
	g := &guard{maxDelay: -1, legacy: w.Header()[legacyLeft] != nil}
	g.refuse(w, r, billOf(&d), &d, reason(&d))
}

// billOf is what d tells of the charges that it was made for: their limits.
func billOf(d *Decision) *bill {
	b := new(bill)
	for i := range d.Each {
		b.note(&d.Each[i])
	}
	if len(b.each) == 0 && d.By != nil {
		b.note(d)
	}
	return b
}

// note adds the limit of a decision. Of two with one limit the stricter stays,
// for the keys that would tell them apart are not known.
func (b *bill) note(d *Decision) {
	if d.By == nil {
		return
	}
	for i := range b.each {
		if b.charges[i].Limit == d.By {
			if stricter(d, &b.each[i]) {
				b.each[i] = *d
			}
			return
		}
	}
	b.charges = append(b.charges, d.By.Charge("", 0))
	b.each = append(b.each, *d)
}

// stricter reports whether d keeps a request out longer than other, or else
// leaves less.
func stricter(d, other *Decision) bool {
	switch {
	case d.Allowed != other.Allowed:
		return !d.Allowed
	case d.Never != other.Never:
		return d.Never
	case d.RetryAfter != other.RetryAfter && !d.Never:
		return d.RetryAfter > other.RetryAfter
	}
	return d.Remaining < other.Remaining
}
