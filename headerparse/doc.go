// Package headerparse reads what an HTTP response says about limits, as values:
// how long to wait, who says so, and what is left of which limit.
//
// There is no one way to say it. The standard has Retry-After; the drafts of
// the IETF changed their RateLimit fields five times; and services write the
// same X-RateLimit-Reset as seconds from now, as seconds, milliseconds or
// microseconds since 1970, as a date or as 6m0s. Who takes an instant for a
// delay sleeps for 56 years. [Parse] decides by rules, from the response alone:
//
//	s := headerparse.Parse(resp.StatusCode, resp.Header, time.Now())
//	if s.Told {
//		wait = max(s.Wait, backoff)
//	}
//
// # Who is believed
//
// The first source that tells something is the one that counts; what cannot be
// read tells nothing.
//
//	1  Retry-After                    the longest of its lines; Retry-After-Ms and
//	   (RFC 9110 section 10.2.3)      X-Ms-Retry-After-Ms make it more exact if they
//	                                  are within a second of it, or speak if it is
//	                                  not there
//	2  X-Retry-After, X-RateLimit-Retry-After, RateLimit-Retry-After, X-Retry-In
//	3  RateLimit, RateLimit-Reset     the IETF drafts, all versions
//	4  X-RateLimit-Reset and so on    everyone else
//
// Sources 3 and 4 tell a wait only of a limit that is spent: the longest reset
// of those with nothing remaining, whatever the status, so that a success that
// used up the last unit already holds back the next call. A 429 without any
// counter tells its longest reset. A 429 whose counters all have something left
// tells nothing: another limit, which is not shown, refused. Under sources 1
// and 2, By is the limit that the refusal is about, as far as that can be known.
//
// If Age says that the response was stored, only sources 1 and 2 count.
//
// # What a number means
//
//	up to 31,622,400 (366 days)   seconds from now
//	1e9 to 1e10                   seconds since 1970
//	1e12, 1e15, 1e18 to ten times as much   milli-, micro-, nanoseconds since 1970
//	anything else                 nothing
//
// An instant must be within 366 days. It is compared with the Date field, so
// that it does not matter how wrong the client's clock is; without a Date it is
// compared with now, and one that was over five minutes ago tells nothing,
// for then one of the clocks is wrong. A name that ends in -Ms or in
// -Reset-After beats the number. Seconds that do not fit into the window that
// X-RateLimit-Window or a field like it tells, and would as milliseconds, are
// milliseconds.
//
// So one rule reads what services mean by one name, and by many:
//
//	seconds since 1970     X-RateLimit-Reset       GitHub, Auth0, SendGrid, Laravel, httprate
//	                       X-Rate-Limit-Reset      X, Okta, Mapbox
//	                       RateLimit-Reset         GitLab, DigitalOcean, Hetzner, Twitch
//	                       Retry-After             Cloud Foundry
//	milliseconds since     X-RateLimit-Reset       LaunchDarkly, OpenRouter, Rocket.Chat
//	                       …-Requests-Reset        Linear
//	seconds to wait        RateLimit-Reset         Kong, PagerDuty, Zendesk, express, tollbooth
//	                       X-RateLimit-Reset       Reddit, Datadog, Envoy, Fastify, APISIX
//	                       …-Requests-Reset        RapidAPI, up to a month
//	milliseconds to wait   X-Rate-Limit-Time-Reset-Ms, Retry-After-Ms     BigCommerce, Azure
//	                       Gw-Ratelimit-Reset      KuCoin, by the table
//	a duration             X-RateLimit-Reset-Tokens: 6m0s    OpenAI, Groq
//	                       X-Retry-In: 30s         Traefik
//	a date                 HTTP-date: Flask-Limiter, ACME; ISO 8601: Anthropic, Vimeo,
//	                       Jira, Zoom; RFC 1123 with UTC: go-limiter; Date.toString: lemlist
//	counters, no reset     Shopify, HubSpot, Trello, Docker Hub, Strava, Riot, Heroku
//
// Numbers are digits, with a fraction if any, and may be quoted. 1e3, 0x10, +5,
// -1, NaN and "120 seconds" are not numbers; a minus means that there is no
// limit or that it is not known.
//
// # Which limits there are
//
//	RateLimit, RateLimit-Policy            drafts -08 to -11: "name";r=0;t=9, and -07
//	RateLimit-Limit, -Remaining, -Reset    drafts -00 to -06
//	X-RateLimit-… and X-Rate-Limit-…       one limit, or one for each name, before or
//	Vendor-RateLimit-…                     behind the word: X-RateLimit-Tokens-Remaining
//	                                       and X-RateLimit-Remaining-Tokens
//	a table of dialects                    Shopify, Riot, Sentry, Meta, Azure, Zendesk
//	                                       and others with names or a syntax of their own
//
// Names and units are in lower case: "requests", "tokens", "minute". X- fields
// that repeat the unnamed limit of the drafts are not a second limit. The name
// of an unnamed limit is told by X-RateLimit-Resource, failing that by a field
// that ends in -Name or -Bucket.
//
// # What the caller does with it
//
//   - Not Told: use your own backoff, with jitter.
//   - Told zero: the same, as the least to wait. Some servers send zero with
//     every answer, and whoever obeys it alone tries again at once, for ever.
//   - Told more: wait at least that long, with jitter on top, and cap it: up to
//     366 days are returned as told, for this package cannot know how long you
//     can wait. Beyond that nothing is told.
//   - Retry-After is about refusal on 3xx, 429 and 503 only. On 200 and 202 it
//     is the interval at which to ask again.
//   - A window is not a wait, and a limit of zero never comes back.
//
// # What is guaranteed
//
// No input panics. Wait, Reset and Window are from 0 to 366 days (or [Unknown]).
// The answer depends on the header's fields alone, not on the order of the map
// or the case of names. A header without limit fields costs less than twice of
// ranging over it, and no memory. Otherwise what is looked at is bounded: names
// of 96 bytes, 64 limit fields (the first by name), 8 lines a field, 8 KiB a
// line and a list, 32 limits, 128 bytes of a limit's name.
package headerparse
