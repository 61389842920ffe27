// Package limiter decides who may do how much. It is the provider's end: it says
// no fast, before work is done; fairly, to the key that asks too much and to
// nobody else; and truthfully, with the first instant at which the same request
// would be admitted.
//
// A [Limit] is a rule with its numbers. A [Charge] is units charged to one key
// of a limit, a [Store] decides on one or several at once, all or none, and
// [Memory] is a store in this process. [Guard] puts it all in front of an
// [net/http.Handler].
//
//	perUser, err := limiter.TokenBucket("user", limiter.Per(10, time.Second), 40)
//	…
//	decision, err := memory.Take(ctx, perUser.Charge(userID, 1))
//	if !decision.Allowed {
//		// come back after decision.RetryAfter
//	}
//
// # Which rule
//
// If in doubt, a [TokenBucket]. For q units in a window w:
//
//	rule            memory           burst             boundary: most in any w    exact      choose it
//	TokenBucket     2 words          burst             none: burst + rate × w     yes        by default: short bursts pass, the mean holds
//	LeakyMeter      2 words          capacity          none: capacity + rate × w  yes        as TokenBucket, if you think in levels
//	LeakyQueue      2 words          0, all wait       none: rate × w             yes        if what lies behind needs even spacing
//	FixedWindow     2 words          q                 2q in a moment             yes        if users must be able to count along
//	SlidingCounter  2 words          q                 about q, at worst 2q       estimate   for long windows, if a few too many do no harm
//	SlidingLog      16 B a request   q                 none: q                    yes        if q is small and must never be exceeded
//	SlidingBuckets  16 B a cell      q                 none: q                    to a cell  as SlidingLog, for a large q
//	Quota           2 words          q                 2q in a moment             yes        for what is sold by the day or month
//
// Memory is that of one key. Two words do not grow with limit or window, and are
// 32 to 64 bytes in a Memory, all included.
//
// At a boundary: a fixed window forgets all at once. Who spends q at the end of
// one window and q at the start of the next has 2q in a moment, and 600 per
// minute lets 1,200 by where 10 per second lets 20. With ToClock it is the
// same moment for all clients, and whoever was refused is waiting for it;
// ToClockPerKey spreads them, and ToFirst starts the window with the client.
// The other rules have no boundary: units come back as they were used.
//
// Ten units a second, and 20 requests from 0.900 s on, one every 10 ms, then 60
// from 2.000 s on, one every 25 ms: the most that reach the service in any one
// second are FixedWindow 20, TokenBucket (burst 10) 19, SlidingCounter 11,
// SlidingLog 10 and LeakyQueue 10. At its worst a SlidingCounter lets nearly
// twice its quota by, after a window in which all came at the end.
//
// Exact means that each unit counts for as long as the rule says. All rules
// count in integers and none drifts, be the rate 7 per 11 minutes, but the
// sliding counter assumes what it does not know, that the units of the window
// before came evenly spread, and sliding buckets keep each unit up to a cell
// longer. A token bucket and a leaky meter with the same numbers admit the same
// requests.
//
// To promise "at most q in any w" with a bucket, choose burst + rate × w = q:
// 40 and 6 a second never exceed 100 in any 10 seconds.
//
// # Costs
//
// A request may cost more than a unit: an export 25, an upload its bytes. There
// is no part payment. A cost above the quota is refused for ever, and
// [Decision].Never says so. A cost of 0 asks whether 1 would pass and charges
// nothing; for what is free make no charge. A refused charge costs nothing.
//
// # Several limits
//
// A user's limit, a tenant's and one for all belong in one Take: it charges all
// or none, so that a request refused by one limit does not use up another. The
// decision names the limit that refused longest, or else the tightest, and has
// each in Each. All of them count a request when it comes. With a LeakyQueue
// among them it leaves later, so if the even spacing matters let there be one
// queue, and the last: of two, the requests leave when the longer one lets them,
// and what the shorter one had spaced may leave together.
//
// # What a Guard does not see
//
// A Guard decides before the body is read. What stands in there, such as the
// account of a login, is charged by the handler that reads it: it calls Take
// itself, answers with [Refuse] what is not admitted, and gives back by Refund
// what a good login has not used.
//
// # Time
//
// A window is (now−w, now]: what was admitted exactly w ago has expired. Windows
// aligned to the clock start at the multiples of w since 1970-01-01 00:00 UTC,
// so those of a day start at midnight UTC; a [Quota] knows time zones, and days
// of 23 and 25 hours. A clock that steps back creates no units, and delays
// nobody by more than the limit takes to be as new. Only a Quota waits longer:
// what was charged to a month that the clock has just left again stays charged
// to that month. But a clock that is set ahead ends windows that follow it, and
// what was used in them is not remembered when it is set right again. All rules
// but FixedWindow to the clock and Quota count elapsed time in a [Memory], and do
// not notice.
//
// # Numbers that are refused
//
// Constructors refuse what makes no sense or could not be exact: a bucket that
// takes longer than 146 years to fill (burst × period ≤ 2^62 ns once count and
// period are reduced), a window longer than 36 years, a SlidingCounter above
// 4,294,967,295 units, a SlidingLog above 10,000 units, more than 10,000 cells
// or cells of no whole number of nanoseconds, a zone more than 16 hours from UTC,
// and a name that cannot stand in a header field.
//
// # Changing a limit
//
// Make the new limit and use what its [Limit.Replacing] returns: units in use
// stay in use. Raised from 10 to 20 with 4 used, 16 are left; lowered to 3, none.
package limiter
