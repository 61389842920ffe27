// Package polite makes an HTTP client a good guest: it paces its calls before
// they leave, obeys what the provider says, retries only what is safe and only
// as much as the provider can bear, never has an effect twice, and stops
// calling what is down.
//
//	client := &http.Client{Transport: polite.NewTransport(nil)}
//
// [Transport] wraps the Transport of an [http.Client]. One call goes this way:
//
//	caller ─► key ─► quota ─► retry ──► breaker open? ─► pacer + gate ─► breaker permit ─► send ─► read the answer
//	          once    spend   budget,    fail fast,       wait in turn,    one probe at      │        │
//	          per     once    deadline,  cost nothing     never past       a time            ▼        ▼
//	          call            then wait                   the deadline                    provider   gate, pacer, breaker,
//	                     ▲                                                                           quota and retry learn
//	                     └───────────────────────────── try again ◄──────────────────────────────────────────┘
//
// Each step is a package of its own, usable without the others; none imports
// another, and only transport.go knows the order:
//
//	headerparse  what an answer says about limits: Retry-After, RateLimit, and the vendors' dialects
//	pacer        when the next call may leave
//	retry        whether and when to try again
//	idempotency  one effect for many tries
//	breaker      stop calling what is down
//	quota        long budgets: a day, a month, in the unit the provider bills
//	observe      what happened and why: hooks, log/slog
//
// What is guaranteed, with [NewTransport] and any configuration:
//
//   - A request without an idempotency key, by a method that is not idempotent,
//     is sent again only if it provably was never processed, or was refused with
//     429 or 425.
//   - A told wait is never undercut, and a wait that cannot fit the caller's
//     deadline is not begun.
//   - Units handed on by a pacer in any time T are at most Burst + Rate × T.
//   - Retries are at most a tenth of the requests while the provider fails.
//   - The contract of [http.RoundTripper]: the request is not written to, its
//     body is closed once, redirects are left alone, no goroutine stays.
//   - All memory is bounded, and each bound is a field.
//
// What is not: a key makes a repeat safe only with a provider that knows keys;
// net/http itself repeats a request on a reused connection that turns out to
// be dead (for POST only with a key), below the pacer; and a pacer knows only
// the processes that share its Reserver.
package polite
