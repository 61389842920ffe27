// Package redisstore keeps limits, paces and quotas in Redis, so that all
// processes of a program, or of a provider, share them.
//
// A [Store] is a limiter.Store, a pacer.Reserver and a quota.Store:
//
//	client, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
//	…
//	store := &redisstore.Store{Client: client, OnDegraded: func(err error) { log.Print(err) }}
//	guard := &limiter.Guard{Store: store, Rules: rules}
//	err = guard.Check()
//
// Guard.Check, Pacer.Check and Quota.Check, and Transport.Check for the last two, ask
// the Store whether it is complete and can keep that exactly. Nothing is sent at the start, so Redis may come later. A program that has a
// go-redis client passes it in with redisstore/goredis; any other one through
// the one method of [Client].
//
// # What is decided, and where
//
// A decision is one script, which Redis runs in one step: whatever the number of
// limits, it charges all of them or none, in one round trip. Decisions that wait to
// be sent at one moment share a script, up to 32 of them, which makes them one after
// the other; in a cluster each has its own, as it has with go-redis. The only clock is
// that of Redis, so it does not matter what the clocks of the processes show. The
// script only decides; what is left and when to come back is worked out here,
// from the state that it answers, by the code that limiter.Memory runs. Decisions
// are those of limiter.Memory, with durations rounded up to a microsecond.
//
// Lua counts in doubles. Limits that are not exact in 53 bits and whole
// microseconds are refused with an error that says what may be:
//
//	quota, any rule                 2^52
//	windows                         whole microseconds
//	SlidingBuckets                  cells of whole microseconds, at most 1,000
//	SlidingLog                      quota at most 1,000
//	buckets                         burst × period in microseconds at most 2^53; 71 years to fill
//
// # What stands in Redis
//
// One string for each limit and key, of 42 or 50 bytes (a log: 16 more for each
// request), which expires one to six seconds after it would equal that of a new
// key. It holds the limit's rule and numbers, so that no limit reads the state of
// another as its own. A limit is known by its name: give each its own, for two of
// one name are one limit whose numbers change all the time. One whose numbers have
// changed takes over what is in use, rounded up to a unit between rules that differ.
// If more is in use than it has, it refuses, and the value stays as it is until so
// much has come back. So while a change is being rolled out, and the value changes
// hands with each process that asks, all together admit what the larger of the two
// limits does.
//
// Redis 5 or later, or Valkey, will do. It is to keep what it has: give it
// maxmemory-policy noeviction or volatile-ttl, as allkeys-lru makes limits new
// while they are in use. What a primary had not passed on when it failed is
// forgotten with it, so for some milliseconds more may be admitted. If the clock
// of its successor is behind, nobody waits longer for it than for one full
// refill.
//
// The Redis user needs the commands EVAL, EVALSHA, TIME, EXISTS, GETRANGE, SET,
// SETRANGE and DEL, and what the client library needs to connect; with MGET too,
// scripts that decisions share are a tenth faster. That one is
// missing shows when a script needs it, maybe when it has charged a part.
//
// # When Redis is not there
//
// A decision takes at most [Store.Timeout], whatever the client library does, and
// what may have been charged is never sent again. After five failures in a row
// Redis is left alone but for one decision at a time that tries; all others are
// answered at once. What a decision then is the OnFailure of each limit says:
//
//	limiter.Open      admitted
//	limiter.Closed    refused, with RetryAfter; a limiter.Guard answers 503
//	limiter.Local     decided on this process's share, which is 1 / Store.Processes of the quota
//	                  and of the rate, of what was left when Redis was last asked about the
//	                  key; less than one unit refuses. It is kept by a limiter.Memory.
//
// Decision.Degraded is why. What was admitted meanwhile is not charged to Redis
// later. A cost over the quota is refused for ever under each of them. A key that
// holds something else than a value of this version, a [JunkError], is left as it
// is and answered likewise, and is no reason to leave Redis alone.
//
// # In a Redis Cluster
//
// A script can only use keys of one server. So all limits of a Prefix are on one,
// unless [Store.Tag] spreads them: with the tenant as the tag of the limits of
// users and of tenants, these are together, and tenants are apart. Charges of one
// decision with several tags are an error. Paces and quotas are spread by their
// keys in any case.
//
// A limit that everybody shares has no place beside each tenant. Set its Global:
// then it is charged in a second round trip after the others, and if it refuses
// these are given back in a third. In between they may refuse somebody else. If
// the second step fails the limit's OnFailure answers; if giving back fails, units
// stay charged until they expire. A decision has the time of one whatever it
// takes. A Global limit that is known here to refuse is refused first, and charges
// nothing. All Global limits are on one server; alone they take one trip. Without
// a cluster nothing has to be Global.
//
// The client library follows slots that move. While one does, a script some of
// whose keys have moved runs nowhere, and OnFailure answers.
//
// # Refusals are remembered
//
// A key that Redis refused is refused here, without being asked about, until it
// would be admitted if nobody else used it, but no longer than for a minute.
// Others can only have made that later, unless they gave units back. What this
// process itself charges or gives back in between is taken into account at once. See
// [Store.NearKeys].
package redisstore
