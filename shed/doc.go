// Package shed bounds how much is done at once. It is the provider's end under
// overload: what cannot be served in time is refused at the door, so that what
// is let in is served in time, and a server that is asked for three times what
// it can do does what it can, instead of nothing.
//
// [Gate] stands before an [net/http.Handler]:
//
//	gate := &shed.Gate{Limit: 40, Tenant: customer}
//	http.ListenAndServe(addr, gate.Handler(mux))
//
//	                                    ┌─ health checks, streams: hold no slot ───────────┐
//	request ─► what is known of it ─────┤                                                  ▼
//	           class, tenant,           └─► a slot free? ─ yes ─► handler ─► slot back ─► answer
//	           deadline, attempt               │ no                  ▲
//	                                           ▼                     │ the best that waits
//	                     503 ◄─ no ─ worth to wait? ─ yes ─► queue ──┘
//	                     Retry-After                           │
//	                          ▲                                │ MaxWait or the deadline is near,
//	                          └────────────────────────────────┘ or a better one takes the place
//
// All of it is decided from the head of a request: of a refused one no handler
// runs, and the answer does not wait for the body.
//
// # Why
//
// A server that is asked for more than it can do queues the rest. If it does so
// without a bound, the wait grows until it is longer than clients wait, and from
// then on the server works at full speed on answers that nobody is there to
// read. They ask again, too. It does not recover when the load falls back to
// what it could bear (Bronson et al., Metastable Failures, HotOS 2021). Bounding
// the queue is what breaks this: it is over a second later.
//
// # How much at once, and how often
//
// limiter bounds how often a caller may ask, shed how much is done at once. With
// C slots and requests that take S, at most C/S a second are done (Little's law):
// 10 slots and 20 ms are 500 a second; if the same requests begin to take 40 ms,
// they are 250, and nobody had to know. A rate cannot do this: 500 a second
// stay 500, and pile up. A Gate in turn does not know what was sold: it would
// let one customer have everything, as long as there is room.
//
//	                       limiter                        shed
//	says no because        a caller used up its own       the server has no room
//	answers                429 Too Many Requests          503 Service Unavailable
//	is stated as           units in a time, in a contract a number of slots, nobody's business
//	when the server slows  lets as much in as before      lets in less
//	when nobody else asks  keeps the caller to its limit  gives it all there is
//	state                  kept for long, shared          of what is going on in this process
//
// Use both: keys that each keep their limit are together still more than a
// server can bear. The Gate belongs outside and the Guard within:
//
//	http.Server ─► shed.Gate ─► who is it? ─► limiter.Guard ─► handler
//
// A Guard may have to ask a store over the network, and what is refused for want
// of room should cost neither that nor units of the caller's quota. The price is
// that a refusal by the Guard holds a slot, for the moment that it takes. If the
// Gate is to know tenants, finding out who it is must go before it, and then
// must be cheap (a signature, not a database).
//
// # Which to choose
//
//	limit      choose it if
//	Limit: n   what is short is known: connections, licences, memory a request; or it was measured.
//	           n = the rate that must be served × the time that a request takes, and some 30 % more
//	Adaptive   it is not known or changes, and requests take about as long as each other,
//	           or their mix stays. It grows while latency is flat. Look at Stats from time to time
//
//	order      under overload                               choose it for
//	Wine       oldest first; the newest is refused at once  jobs, transfers, uploads: who waits is served
//	Milk       newest first; the oldest is refused          people: most are served at once, some not at all
//
// With Wine everybody who is served has waited for about as long as the queue
// is; with Milk most have hardly waited. What is served is as much.
//
// Queue and MaxWait only even out bursts. A longer queue serves nobody more: it
// makes those who are served wait. MaxWait well below what clients wait (a
// quarter of it, say), and the default Queue, need no tuning.
//
// # Who goes first
//
// Of four classes a higher one goes before every lower one, and the lowest is
// refused first, as in the SRE book; see [Class]. Class goes before tenant: who
// fills the server with Critical requests leaves nothing to anybody's Sheddable
// ones. Who names its class in a header is believed only if TrustPriority says so.
//
// Within a class tenants take turns (fair queueing: round robin where all weigh
// the same), and when the queue is full, the longest of theirs is shortened, so
// that one who sends a hundred times as much as the others by one name takes from
// nobody but itself. A name costs nothing to invent: so only MaxTenants unknown
// ones have a share of their own, and all others one together. That bounds what
// can be had by inventing names, at MaxTenants shares, and does not make it
// nothing. Known tenants always have their own, and who calls himself like one
// without proof is another.
//
// # What a client is told
//
//	503 Service Unavailable
//	Retry-After: 4
//	Cache-Control: no-store
//	Content-Type: application/problem+json
//
//	{"type":"about:blank", …, "reason":"full","retry_after":4}
//
// Retry-After doubles while the queue loses many, from 1 s on, and falls when it
// loses few, second by second, as in Kubernetes; then it is spread from once to
// twice that, at most 32 s, or all who were refused together come back together.
// It says how long to stay away, and promises nothing. Who has too little time is
// not told to: that is about this one request, and clients that obey stay away
// with all they have.
//
// It is the server that lacks room, hence 503. Only to a tenant that has more
// than its share of a full queue, while others wait too, the status is 429 Too
// Many Requests: that is about its own doing, and slower would help.
//
// # What a client can tell
//
// The client half of this module sends these when it is asked to
// (retry.Policy.DeadlineHeader and AttemptHeader); any client may.
//
//	Request-Timeout-Ms: 850       a request that cannot be answered by then is refused at once
//	Request-Attempt: 2            with RetriesYield, it goes after those who ask for the first time
//	Request-Priority: sheddable   if the peer is trusted
//
// What is no such value is ignored, and what is too large is cut. A lie in these
// harms who tells it: who claims to have more time waits no longer than MaxWait,
// and who claims to have none is refused, which does not count for Retry-After.
//
// Enough is what is left of the time if even the quickest of late took no more, so
// that requests of all kinds may pass one Gate; what is over already is never
// enough. For a second after the queue has lost some, it is what nine of ten took,
// but at most four times what half of them took: a request that will probably be
// late would then take the slot of one that would not. Where more than half of the
// requests take much longer than the others, and there is too much to do, the
// others are refused too often: give them a Gate of their own. What Wait lets in
// is not measured, nor is what clients take to read, if the handler says [Done].
//
// By another header a client can get past the limit: see LongLived, whose default
// goes by Upgrade and Accept, and MaxLongLived, which bounds that.
//
// # What is guaranteed
//
//   - There are never more than Limit handlers inside, exempt and long-lived ones
//     and sub-calls aside. SetLimit(0) lets nobody in, also when the house is empty.
//     What a handler leaves behind when it returns is not seen: put
//     http.TimeoutHandler, which does not wait for what it gives up, outside the
//     Gate and not within.
//   - A slot comes back when the handler ends, however it does: by return, panic
//     or runtime.Goexit, after a Hijack, with its client there or not.
//   - Who leaves while it waits takes no slot. Over HTTP/1 net/http notices that
//     only of requests without a body.
//   - Nobody waits for longer than MaxWait, also if nobody comes or goes.
//   - A sub-call of a request that is inside, made with its context, uses its
//     slot and does not wait behind its own parent; see [Gate.Wait]. It is refused
//     only when its own time is over.
//   - A refusal is sent at once. By HTTP/1 the body is read after it, if that
//     is known to be shorter than 256 KiB, to use the connection again: until it has
//     come, or for the server's ReadTimeout, connection and goroutine are kept, as
//     of any client that is slow to send. Longer bodies, those of unknown length and
//     with Expect end the connection.
//   - The ResponseWriter is handed on as it came: http.ResponseController,
//     Flusher and Hijacker work.
//   - Memory is bounded: Queue requests wait (and as many producers as the program
//     has), MaxLongLived streams are open, about 80 bytes are kept for each of
//     MaxTenants, and 2 KB of how long requests took. 200,000 unknown tenants cost
//     no more.
//   - Uncontended, Enter and Leave allocate nothing and cost about three times a
//     time.Now together; Handler makes one allocation, with NoSubCalls none.
//   - There are no goroutines. A timer runs while somebody waits.
//
// # Producers
//
// [Gate.Wait] is for work that begins within the process: it is not refused but
// slowed down to what there is room for. It has no class: see there for what it
// takes from others. [Gate.Enter] is Handler for what does not come by HTTP.
package shed
