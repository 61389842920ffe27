// Package polite makes an HTTP client a good guest: it paces its calls before
// they leave, obeys what the provider says, sends again only what is safe and
// only as much as the provider can bear, and stops calling what is down.
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
// The gate is a hold that the provider asked for: while it is shut, nobody
// leaves. A permit lets one call, the probe, find out whether a host that was
// down is well again.
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
// The other end of the conversation, for who runs an API, is here as well, and
// is tested against this one:
//
//	limiter           who may do how much: rules, stacks of them, and Guard, an http.Handler that says no
//	limiter/clientip  who it is that calls, behind proxies
//	shed              how much at once: Gate keeps a server at its capacity when more is asked
//
// The module redisstore beside it keeps limits, paces and quotas for many
// processes in Redis.
//
// # For one call
//
// What one call wants otherwise travels in its context:
//
//	retry.WithPolicy         another retry policy, in place of the Transport's
//	retry.WithIdempotent     this call is safe to repeat, whatever its method
//	idempotency.WithKey      its idempotency key, for example of a job and a row
//	pacer.WithPriority       Background: after those who wait for an answer
//	observe.With             hooks of its own
//
// # Words
//
//	told wait    a wait that the provider asked for, by Retry-After or a limit that is spent
//	hold         nobody leaves before an instant: what a told wait does to a pacer
//	learnt rate  what a pacer without a rate keeps to after it was refused without a word
//	spread       with little left, what is left goes out evenly until the provider's reset
//	budget       how many retries there may be, whatever each call's policy allows
//	outlast      to wait for an open circuit instead of failing
//	unit         what pace and quota count: calls, unless Cost says messages, tokens, segments
//
// # What is guaranteed
//
//   - A request without an idempotency key, by a method that is not idempotent,
//     is sent again only if it provably was never processed, or was refused with
//     429 or 425.
//   - A told wait is never undercut, and a wait that cannot fit the caller's
//     deadline is not begun.
//   - Units handed on by a pacer in any time T are at most Burst + Rate × T.
//   - Beyond ten to begin with and one every 10 s, retries are at most a tenth
//     of the calls to a host, unless the budget is retry.NoBudget.
//   - The contract of [http.RoundTripper]: the request is not written to, its
//     body is closed once, redirects are left alone, no goroutine stays.
//   - All memory is bounded, and each bound is a field.
//   - No path, query, header or body reaches a hook, a log or an error of the
//     Transport. (An http.Client puts the URL in front of every error: log what
//     errors.Unwrap returns.)
//
// # What is not
//
// A key makes a repeat safe only with a provider that knows keys. net/http
// itself repeats a request without a body on a reused connection that turns out
// to be dead, below the pacer. And a pacer knows only the processes that share
// its Reserver.
package polite
