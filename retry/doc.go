// Package retry decides whether a failed HTTP call is tried again, when, and
// who pays for it.
//
//	client := &http.Client{Transport: &retry.Transport{}}
//
// # Model
//
// A call is made of attempts. After each one, a single rule looks at what it
// came to and at what came before, and says: this is the answer, or wait so
// long and try again. The rule is a pure function; everything else carries out
// what it says.
//
//	attempt ─► final? ──────────────────────────────────► the caller
//	   ▲         │ no                                        ▲
//	   │         ▼                                           │
//	   │       safe to repeat? body rewinds? ── no ──────────┤
//	   │         │ yes                                       │
//	   │         ▼                                           │
//	   │       attempts left? wait fits the deadline? ─ no ──┤
//	   │         │ yes                                       │
//	   │         ▼                                           │
//	   └─ wait ◄─ a token of the budget? ── no ──────────────┘
//
// # What is tried again
//
//	                                     safe to repeat   any other call
//	408, 500, 502, 503, 504              yes              no
//	425, 429: the provider did not act   yes              yes
//	409 with a told wait                 yes              no
//	409 after an uncertain attempt       yes              no
//	the connection failed                yes              if never processed
//	the attempt timed out                yes              if never processed
//	bad certificate, scheme, request     no               no
//	the request's own body failed        no               no
//	refused by this client               no (OutlastOpen) no (OutlastOpen)
//	Idempotent-Replayed: true            no               no
//	X-Should-Retry: false                no               no
//	X-Should-Retry: true, 400 and over   yes              no
//	any other status                     no               no
//
// Safe to repeat are the idempotent methods of RFC 9110 section 9.2.2 and QUERY,
// calls that an idempotency key vouches for, and those marked by
// [WithIdempotent]. A call whose body cannot be sent again (a body without
// GetBody) is never repeated, nor one whose context has ended.
//
// That an attempt was never processed must be proved: by an error of dialing or
// of the certificate; by a connection that was wanted and never got, as
// net/http/httptrace reports it; by HTTP/2's REFUSED_STREAM and GOAWAY (RFC 9113
// section 8.7). That no answer came proves nothing, and so do missing trace
// events. Where a trace shows a connection, an error of dialing proves nothing
// either, for net/http may have repeated the request below; and an error that
// joins several proves what every one of them proves. Calls that may be repeated
// anyway are not traced ([Call] has Prove), so that such a proof may be missed.
//
// What net/http would repeat by itself on a dead connection is left to this
// package where it may repeat it, so that pace, budget and hooks see each try;
// a call without a body net/http repeats all the same.
//
// # How long it waits
//
// A backoff from Policy: full jitter over 0.5, 1, 2, 4, 8, 10 s. If the
// provider told a wait, at least that long, with a jitter of up to a tenth on
// top, for everybody was told the same. A told wait that does not fit the
// deadline, MaxElapsed or MaxRetryAfter is not waited for in part: the response
// returns at once, with the fields that say so.
//
// # Who pays
//
// Backoff changes when retries come; only a [Budget] changes how many. Each
// Transport has one for each host: a long outage leaves one retry in 10 s, a
// provider that fails half of the time gets 1.1 times the load, and at 10 %
// failures 98 % of calls and more still succeed. The worst that each setting
// allows during a long outage, in attempts a call:
//
//	the budget            1.1 at a call a second, less with more
//	NoBudget              MaxAttempts (4)
//	NoBudget in L layers  MaxAttempts to the power of L
//
// # What the provider is told
//
// With Policy.AttemptHeader and Policy.DeadlineHeader each attempt carries its
// number, and how many milliseconds there are until nobody waits for its
// answer. A provider under overload can use both, as this module's shed does: it
// gives up what would be late, instead of working for callers who have left, and
// refuses repeats before first tries. With a budget here and that there, an
// outage is over seconds after its cause is; with either alone its queue of lost
// calls, or the retries, keep it going. Both are off by default.
//
// # What is guaranteed
//
// The contract of http.RoundTripper: the request is not written to, its body is
// closed once, responses that nobody sees are closed, contexts, traces and
// trailers work, CloseIdleConnections is passed on. Bodies are read only by the
// base, never before they are sent, and never held in memory. Exhausted retries
// return the last response, unread, and no error. Errors ([Error]) tell every
// attempt and show no path, query or header. No goroutine outlives a call; a
// Transport with an AttemptTimeout holds one timer while attempts are under way
// whose base waits for their end, until the last of them would have timed out.
//
// # In a chain of one's own
//
// [Transport] sends every attempt to its base. Who waits for a turn or asks a
// circuit before each attempt writes a [Sender] and calls [Do]; if it can say
// beforehand how long that will take, a [Forecaster].
package retry
