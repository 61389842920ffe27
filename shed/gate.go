package shed

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Order says which of two waiting requests is the better one.
type Order int

// The orders.
const (
	Wine Order = iota // the older: oldest first; full, the newest is refused. For jobs and transfers
	Milk              // the newer: newest first; full, the oldest is refused. For who sits before a screen
)

// Gate bounds how much a handler does at once. The zero value finds the limit by
// itself. Fields must not change after first use, and a Gate must not be copied
// then; what may change at run time has a method. A Gate may be used by many
// goroutines at once, and its Handler method for several handlers, which then
// share the limit.
type Gate struct {
	// Limit is how many requests are served at once. Zero: Adaptive finds out.
	// Negative: any number, whatever their deadlines, and the Gate only counts.
	Limit int

	// Adaptive finds the limit from how long requests take. nil, where Limit is
	// zero: &Adaptive{}. With a Limit it must be nil.
	Adaptive *Adaptive

	// Queue is how many requests may wait for a slot. Each takes the memory of a
	// request and its goroutine. Zero: twice the limit, at least 16. Negative: none.
	Queue int

	// Order of the queue, among requests of one class and tenant.
	Order Order

	// MaxWait is the longest that a request waits; who is still waiting then is
	// refused. Let it be well below what clients wait for an answer. Zero: 200 ms.
	// Negative: as long as the client does.
	MaxWait time.Duration

	// Tenant says whose request it is. Each tenant that waits has an equal share of
	// the slots that get free, and a full queue is shortened where it is longest.
	// "": nobody in particular; all such share one share. nil: all are one.
	Tenant func(*http.Request) string

	// Known reports whether Tenant's answer was proven, by signing in or by a key.
	// Such tenants always have shares of their own, which nobody else can use up who
	// only calls himself the same. Of the others, who may call themselves anything,
	// MaxTenants do. nil: none is known.
	Known func(*http.Request) bool

	// Weight is how many shares a tenant has, up to 65,536: only what they are of
	// each other matters, and the last word counts from then on. Zero and below: 1.
	// nil: 1 each.
	Weight func(*http.Request) int

	// MaxTenants is how many unknown tenants have a share each; all further ones
	// have one share together. Who invents as many names has as many shares: where
	// few unknown ones are expected, say so. Zero: 1,024. Negative: none has its own.
	MaxTenants int

	// Priority says how much a request matters. nil: all are Critical.
	Priority func(*http.Request) Class

	// TrustPriority reports whether the class that a request's PriorityHeader names
	// is to be believed; it then goes before Priority. Trust peers that are known
	// by a certificate, a key or an address that nobody can forge, or everybody is
	// critical. nil: nobody is trusted, and the field is not read.
	TrustPriority func(*http.Request) bool

	// RetriesYield has a request that is not the client's first try, as its
	// AttemptHeader says, count as one class lower. Set it where clients that
	// retry all say so: who does not say so does not yield.
	RetriesYield bool

	// The header fields in which clients tell how long they wait, which try it is,
	// and the class. What is told by anybody can only harm the teller. Empty:
	// Request-Timeout-Ms, Request-Attempt, Request-Priority. "-": not read.
	DeadlineHeader, AttemptHeader, PriorityHeader string

	// HealthPaths are served always, by GET and HEAD, without a slot: a server that
	// is busy is not dead, and who restarts it makes it worse. nil: /health,
	// /healthz, /livez, /ping, /readyz and /up. Empty but not nil: none.
	HealthPaths []string

	// Exempt reports whether a request is served without a slot in any case; nil:
	// none but those of HealthPaths.
	Exempt func(*http.Request) bool

	// LongLived reports whether a request asks for an answer that lasts: it holds no
	// slot, and its time is not measured. nil: the method CONNECT, and GET with an
	// Upgrade field other than h2c (such as for a WebSocket) or that accepts
	// text/event-stream. Anybody can send these to any path, and so get past the
	// limit, MaxLongLived of them at once: where that could do harm, say here which
	// paths have such answers, or that none has.
	LongLived func(*http.Request) bool

	// MaxLongLived is how many of these are served at once, beside those within the
	// limit; more are refused, and that keeps nobody else away. Zero: 1,000.
	// Negative: any number.
	MaxLongLived int

	// NoSubCalls promises that no handler comes back to this Gate, by Wait, Enter
	// or another of its Handlers, with the context of a request that it has let
	// in. It saves the allocation by which such sub-calls are known.
	NoSubCalls bool

	Hooks *Hooks // nil: none

	once  sync.Once
	ready *gate
	fault error
}

// Adaptive is a limit that follows how long requests take: it grows while they
// take no longer for it, and shrinks when they do. Who gives up before its answer
// is ready counts as one that takes longer, so it also works where all clients
// lose patience.
//
// It needs handlers that take about as long for each client: what waits for a
// slow client to read should say when its work is done, see [Done]. Requests of
// different kinds may differ as they like as long as their mix stays. If it
// changes, a slow kind that becomes frequent looks like a server that became slow,
// and until it is clear that it is not, which can take a minute, more is refused
// than need be: with 300 a second of 5 ms each, of which a tenth take 3 s from one
// moment on, about three in four during the first half of a minute. So give kinds
// that come and go on their own, such as reports, or jobs by Wait, a Gate of their
// own, or one with a Limit.
type Adaptive struct {
	Min     int // at least 1; zero: 2 × GOMAXPROCS
	Max     int // zero: 1,000
	Initial int // zero: 20, within Min and Max
}

// Handler returns a handler that lets requests in to next. It panics with what
// Check returns if that is not nil.
func (g *Gate) Handler(next http.Handler) http.Handler {
	if next == nil {
		panic("shed: Gate.Handler needs a handler for what it lets in; nil is none")
	}
	return &gated{g.compiled(), next}
}

// compiled is g as it is used, made once, so that all handlers share the limit.
func (g *Gate) compiled() *gate {
	g.once.Do(func() { g.ready, g.fault = compile(g) })
	if g.fault != nil {
		panic(g.fault)
	}
	return g.ready
}

// gated is a handler behind a Gate.
type gated struct {
	*gate
	next http.Handler
}

func (h *gated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := h.gate
	if healthCheck(r, g.healthPaths) || g.exempt != nil && g.exempt(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	if g.longLived(r) {
		h.serveLongLived(w, r)
		return
	}
	v := g.visit()
	g.read(v, r)
	ctx := r.Context()
	if why := g.enter(ctx, v); why != "" {
		g.refuse(w, r, v, why)
		return
	}
	defer g.leaveHandler(ctx, v) // also if next panics or exits the goroutine
	if g.noSubCalls {
		h.next.ServeHTTP(w, r)
	} else {
		inside := within(ctx, g, v, r)
		h.next.ServeHTTP(w, inside)
		// What others look for in the request that they know: middleware outside, for
		// the route, and net/http, for the files that it is to remove.
		r.Pattern, r.MultipartForm = inside.Pattern, inside.MultipartForm
	}
	v.ended = whole
}

// serveLongLived serves without a slot, and counts.
func (h *gated) serveLongLived(w http.ResponseWriter, r *http.Request) {
	g := h.gate
	if n := g.streams.Add(1); g.maxLongLived >= 0 && n > int64(g.maxLongLived) {
		g.streams.Add(-1)
		v := g.visit()
		g.read(v, r)
		now := g.now()
		g.mu.Lock()
		g.noStream.Refuse(now)
		v.retryAfter = g.noStream.RetryAfter(now, rand.Float64())
		g.refuse(w, r, v, g.turnAway(v, Full))
		return
	}
	defer g.streams.Add(-1)
	h.next.ServeHTTP(w, r)
}

// read reads what the Gate must know of a request.
func (g *gate) read(v *visit, r *http.Request) {
	v.request = r
	t := &v.ticket
	if g.tenant != nil {
		t.Tenant = g.tenant(r)
		t.Known = g.known != nil && g.known(r)
		if g.weight != nil {
			t.Weight = g.weight(r)
		}
	}
	class := Critical
	if g.priority != nil {
		class = g.priority(r).clamped()
	}
	if g.trustPriority != nil && g.priorityHeader != "" && g.trustPriority(r) {
		if told, ok := parseClass(one(r.Header, g.priorityHeader)); ok {
			class = told
		}
	}
	if len(r.Header) > 0 {
		v.attempt = toldAttempt(one(r.Header, g.attemptHeader))
		if timeout, ok := toldTimeout(one(r.Header, g.deadlineHeader)); ok {
			v.timeout, v.hurried = timeout, true
		}
	}
	if v.attempt > 1 && g.retriesYield {
		class = class.lower()
	}
	v.class = class
}

// refuse answers who is not let in, and puts its visit away.
func (g *gate) refuse(w http.ResponseWriter, r *http.Request, v *visit, why Reason) {
	retryAfter := v.retryAfter
	g.put(v)
	answer(w, r, why, int64(retryAfter/time.Second))
}
