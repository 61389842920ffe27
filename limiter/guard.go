package limiter

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Guard limits the requests that reach a handler. It decides before the body of
// a request is read and before any inner handler runs, so that a refusal is
// cheap, and it hands on the ResponseWriter as it came.
//
//	guard := &limiter.Guard{Rules: []limiter.Rule{
//		{Key: limiter.ByAddress(nil), Limits: []*limiter.Limit{perAddress}},
//		{Pattern: "POST /login", Key: limiter.ByAddress(nil), Limits: []*limiter.Limit{logins}},
//	}}
//	http.ListenAndServe(addr, guard.Handler(mux))
//
// # What a client is told
//
// A request that is admitted is answered by the handler, with these fields set
// before (draft-ietf-httpapi-ratelimit-headers-11), one item for each limit
// that was charged:
//
//	RateLimit-Policy: "reads";q=100;w=60     100 units in 60 seconds
//	RateLimit: "reads";r=87;t=42             87 are left; in 42 seconds there may be more
//
// q of a bucket is its burst or capacity and w the time in which it fills. Both
// times are rounded up to seconds, so that q units in w are always granted; a w
// below a second is left out. t is, of a fixed window, until it ends, and else
// until one more unit is there; of a limit that refuses, until it would not. Of a
// sliding window only a [Memory] knows that:
// with another Store t is left out while units are left, and then is until all
// are there. Several Guards, one in another, each add their items; what the
// inner one refuses stays charged by the outer, and its Retry-After knows nothing
// of the outer's limits, so where it can be, one Guard has all the rules.
//
// A request that is refused is answered
//
//	429 Too Many Requests
//	Retry-After: 3
//	RateLimit-Policy: "reads";q=100;w=60
//	RateLimit: "reads";r=0;t=3
//	Cache-Control: no-store
//	Content-Type: application/problem+json
//
//	{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded", …}
//
// Retry-After is in whole seconds, at least 1, and true: whoever waits for it
// is admitted if nobody else uses the units up meanwhile. It is never earlier
// than a t beside it, for a t that would be later is left out. The body (RFC
// 9457) says in words which limit refused and why, when to come back, and whom
// to ask; see [Guard.Contact]. Fields about caching that were set before are
// removed. A cost that can never be admitted gets a 429 without Retry-After, of
// which the body says that waiting will not help.
//
// A request that a store which fails refuses, since a limit's OnFailure is
// Closed, is answered 503 with Retry-After; so is one that ends, or whose
// context ends, while it waits. One that is admitted without the store has no
// RateLimit fields.
//
// # What is charged
//
// All rules that match a request are charged in one Take: all of their charges
// or none, so that a user's refusal costs the tenant nothing. The functions of
// the rules run before that, in order, and for one request each at most once:
// Exempt, Cost, Tier, Key. If one of them panics, or the handler, the panic
// passes through; what was charged until then stays charged. A charge is not
// given back when the handler fails, nor to a client that leaves before it is
// answered, while it is held by a LeakyQueue for example: leaving would be a way
// around every limit.
//
// # The body of a refused request
//
// It is not read, and who sent Expect: 100-continue is not asked for it. Over
// HTTP/1 net/http then closes the connection, if more than 256 KiB are to come;
// up to that it reads and drops them before it answers, so that the connection
// can be used again. How much is to come of a body without Content-Length is
// not known, so with one of these the Guard closes the connection itself
// ("Connection: close") and the answer leaves at once. Over HTTP/2 the stream
// ends and the connection stays.
//
// Fields must not change after first use. A Guard may be used by many goroutines
// at once, and its Handler method for several handlers, which then share all.
type Guard struct {
	Store Store  // nil: a Memory of the Guard's own
	Rules []Rule // at least one

	// MaxDelay is how long an admitted request of a LeakyQueue may be held. One
	// that would be held longer, or beyond its context's deadline, is refused and
	// not charged; without Retry-After if it would be so in an empty queue too.
	// Zero: 10 s. Negative: any time.
	MaxDelay time.Duration

	// MaxHeld is how many requests may be held at once; more are refused and not
	// charged. Each takes the memory of a request and its goroutine. That a client
	// has left is noticed at once only if its request has no body: net/http looks
	// when a body is read, and the Guard reads none. A Store other than a [Memory]
	// is then asked about one unit of each limit, so to a request that costs more
	// Retry-After may be too early. Zero: 1,000. Negative: any number.
	MaxHeld int

	// Degrade is called in place of the answer 429, to give a cached or a reduced
	// one; nil: none. The fields of the refusal are set, Cache-Control: no-store
	// among them, and it may change them. [DecisionFrom] tells it why. A request
	// for which the store failed is not degraded.
	Degrade http.Handler

	// Contact is whom to ask about limits: a URL or an address. It stands in the
	// body of refusals and on the page of [Guard.Policies]. Empty: nobody.
	Contact string

	// Legacy adds X-RateLimit-Limit, -Remaining and -Reset for older clients: of
	// the tightest limit the quota, what is left, and the second of Unix time when
	// there may be more, as t tells it, rounded up. With several Guards that of
	// the one with the least left stands.
	Legacy bool

	// Partition, if set, adds pk to each item: which of the callers' shares of the
	// limit this is, so that a client with several can tell them apart. It is a
	// hash of the key under this secret, which must have at least 16 bytes and be
	// the same in all processes.
	Partition []byte

	Hooks *Hooks // nil: none

	// Title is the heading of the page that Policies serves. Empty: "Rate limits".
	Title string

	// URL is where the API is, for the examples on that page. Empty:
	// "https://api.example.com".
	URL string

	once  sync.Once
	ready *guard
	fault error
}

// Rule says which requests are limited, whose units they use, and by which
// limits.
type Rule struct {
	// Pattern chooses requests as http.ServeMux writes it, such as "POST /login",
	// "/files/" or "GET /users/{id}". Empty: every request. Each rule looks for
	// itself, so patterns may repeat and overlap. The path is the one that the
	// Guard sees, outside of any StripPrefix within. A host has no port.
	Pattern string

	// Key says whose units a request uses: requests with the same key share them.
	// Required; see [ByAddress] and its neighbours. One rule has one key: user,
	// tenant and global are three rules.
	//
	// What a client can choose at will is no identity: a limit for each value of
	// an unchecked header is no limit, for the client sends another value each
	// time. Key by a user, tenant or API key only once it is known to be genuine,
	// return "" until then, and let a rule by address stand beside it.
	//
	// Of a request for which it returns the empty string it has no identity. Such
	// a request is not let off: it is limited under this rule by the address of
	// its connection (a /64 of IPv6), apart from all keys that Key returns.
	Key func(*http.Request) string

	// Limits are charged all or none. Names must differ, also from those of other
	// rules with the same pattern, since clients know limits by name. A *Limit that
	// stands in two rules which both match is charged twice.
	Limits []*Limit

	// Cost is how many units a request uses. nil: 1. A cost of 0 makes no charge.
	// A negative one is taken as 1, since nothing that a client sends may give
	// units back: a cost made of ContentLength, which is -1 if it is not known,
	// should say itself what such a request costs.
	Cost func(*http.Request) int64

	// Tier is in place of Limits where they depend on the request: on the plan of
	// its customer, on its region. A nil in the list is passed over. If there is
	// no limit in it, nothing is known that would allow the request, and it is
	// answered 403: a plan that was forgotten must not be one without limits.
	// Exempt says that none apply. Hooks are not told, for there is no limit to
	// tell. Who changes to another plan's limit starts anew under it; and it must
	// return the same limits each time, for one made anew has nothing in use.
	Tier func(*http.Request) []*Limit

	// Exempt reports whether the rule does not apply to a request; nil: to none.
	Exempt func(*http.Request) bool

	// DryRun puts the rule on trial: it is charged, after the others have admitted
	// the request, and Hooks are told, but it refuses and delays nothing, and no
	// answer or page shows it. All rules on trial are charged in one Take of their
	// own.
	DryRun bool

	// Title says in a few words what the rule is about, for the page of Policies.
	// Empty: the pattern.
	Title string

	// Plans are what Tier may return, for that page; and they are checked.
	Plans []Plan
}

// Plan describes one of the tiers of a Rule.
type Plan struct {
	Name   string
	Limits []*Limit
}

// Handler returns a handler that limits the requests for next. It panics with
// what Check returns if that is not nil.
func (g *Guard) Handler(next http.Handler) http.Handler {
	if next == nil {
		panic("limiter: Guard.Handler needs a handler for what it admits; nil is none")
	}
	return &guarded{guard: g.compiled(), next: next}
}

// compiled is g as it is used, made once, so that all handlers share the store
// and the held.
func (g *Guard) compiled() *guard {
	g.once.Do(func() { g.ready, g.fault = compile(g) })
	if g.fault != nil {
		panic(g.fault)
	}
	return g.ready
}

// guarded is a handler behind a Guard.
type guarded struct {
	guard *guard
	next  http.Handler
}

func (h *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := h.guard
	b := g.newBill()
	if !b.collect(g, r) {
		g.answerNoPlan(w, r)
		return
	}
	if len(b.charges) > 0 && !g.admit(w, r, b) {
		b.done(g)
		return
	}
	if len(b.trial) > 0 {
		g.try(r, b)
	}
	b.done(g) // not deferred: next may run for hours
	h.next.ServeHTTP(w, r)
}

// admit makes the charges, and answers the request if it is not admitted.
func (g *guard) admit(w http.ResponseWriter, r *http.Request, b *bill) bool {
	if b.queues() {
		d, why := g.enter(r.Context(), b)
		if why != notRefused {
			g.tell(r, b, &d, refused)
			g.refuse(w, r, b, &d, why)
			return false
		}
		defer g.held.Add(-1)
	}
	d := b.take(g, r.Context())
	if d.Overflow {
		g.tellOverflow(r, b, &d)
	}
	if d.Degraded != nil {
		g.tell(r, b, &d, degraded)
		if r.Context().Err() != nil {
			// Who hangs up while the store is asked must not get by uncharged.
			d.Allowed = false
		}
	}
	why := reason(&d)
	if why == notRefused && d.Delay > 0 {
		why = g.hold(r.Context(), b, &d)
	}
	if why != notRefused {
		g.tell(r, b, &d, refused)
		g.refuse(w, r, b, &d, why)
		return false
	}
	g.tell(r, b, &d, admitted)
	if d.Degraded == nil {
		b.setFields(g, w.Header(), &d)
	}
	return true
}

// try charges the rules that are on trial, and tells the hooks alone.
func (g *guard) try(r *http.Request, b *bill) {
	b.charges, b.owners, b.trial, b.trialOwners = b.trial, b.trialOwners, b.charges, b.owners
	b.onTrial = true
	d := b.take(g, r.Context())
	if d.Overflow {
		g.tellOverflow(r, b, &d)
	}
	if d.Degraded != nil {
		g.tell(r, b, &d, degraded)
	}
	if d.Allowed {
		g.tell(r, b, &d, admitted)
	} else {
		g.tell(r, b, &d, refused)
	}
}

// An outcome is one of the hooks.
type outcome uint8

const (
	admitted outcome = iota
	refused
	degraded
)

// tell calls the hook for an outcome.
func (g *guard) tell(r *http.Request, b *bill, d *Decision, o outcome) {
	if g.hooks == nil {
		return
	}
	hook := g.hooks.Admitted
	switch o {
	case refused:
		hook = g.hooks.Refused
	case degraded:
		hook = g.hooks.Degraded
	}
	if hook == nil {
		return
	}
	hook(b.event(g, r, d, b.deciding(d)))
}

// tellOverflow calls the hook for every charge that fell into an overflow entry.
func (g *guard) tellOverflow(r *http.Request, b *bill, d *Decision) {
	if g.hooks == nil || g.hooks.Overflowed == nil {
		return
	}
	for i := range b.each {
		if b.each[i].Overflow {
			g.hooks.Overflowed(b.event(g, r, d, i))
		}
	}
}

// event is what hooks are told, of one of the charges.
func (b *bill) event(g *guard, r *http.Request, d *Decision, i int) Event {
	c := b.charges[i]
	return Event{
		Request: r, Pattern: g.rules[b.owners[i]].Pattern,
		Limit: c.Limit, Key: c.Key, Cost: c.Cost,
		Decision: *d, Charges: b.charges, DryRun: b.onTrial,
	}
}

type decisionKey struct{}

// DecisionFrom returns the decision that refused a request, in the context of a
// request that Guard.Degrade is called with.
func DecisionFrom(ctx context.Context) (Decision, bool) {
	d, ok := ctx.Value(decisionKey{}).(*Decision)
	if !ok {
		return Decision{}, false
	}
	return *d, true
}

// withDecision is r with a copy of d that stays valid.
func withDecision(r *http.Request, d *Decision) *http.Request {
	kept := *d
	kept.Each = slices.Clone(d.Each)
	return r.WithContext(context.WithValue(r.Context(), decisionKey{}, &kept))
}
