package headerparse

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestServices has what the corpus has not: further services and spellings,
// each by the rules that the corpus shows.
func TestServices(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		lines  []string
		want   string
	}{
		// X-RateLimit-Reset as an instant.
		{"SendGrid", 429, []string{dated, "X-RateLimit-Limit: 500", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1772366423"}, "23s X-Ratelimit-Reset by 0 | 0/500 reset 23s"},
		{"Turn.io, a bucket as name, advice on success", 200, []string{dated, "X-Ratelimit-Bucket: messages", "X-Ratelimit-Limit: 60", "X-Ratelimit-Remaining: 59", "X-Ratelimit-Reset: 1772366460", "Retry-After: 0"}, "0s Retry-After | messages 59/60 reset 1m0s"},
		{"OpenRouter, milliseconds", 429, []string{dated, "X-RateLimit-Limit: 20", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1772366430500"}, "30.5s X-Ratelimit-Reset by 0 | 0/20 reset 30.5s"},
		{"Cloud Foundry, two APIs", 429, []string{dated, "X-RateLimit-Limit-V2-API: 100", "X-RateLimit-Remaining-V2-API: 0", "X-RateLimit-Reset-V2-API: 1772366460"}, "1m0s X-Ratelimit-Reset-V2-Api by 0 | v2-api 0/100 reset 1m0s"},
		{"GitHub, a resource", 403, []string{dated, "X-RateLimit-Limit: 30", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1772366460", "X-RateLimit-Resource: search"}, "1m0s X-Ratelimit-Reset by 0 | search 0/30 reset 1m0s"},
		{"GitHub, a resource and a name", 200, []string{"X-RateLimit-Remaining: 3", "X-RateLimit-Resource: core", "X-RateLimit-Name: other"}, "nothing | core 3/?"},
		{"Okta, a limit of 0 with something left elsewhere", 200, []string{dated, "X-Rate-Limit-Limit: 600", "X-Rate-Limit-Remaining: 599", "X-Rate-Limit-Reset: 1772366423"}, "nothing | 599/600 reset 23s"},
		{"Akamai, its own prefix", 429, []string{dated, "Akamai-RateLimit-Limit: 60", "Akamai-RateLimit-Remaining: 0", "Akamai-RateLimit-Next: 2026-03-01T12:00:20Z"}, "20s Akamai-Ratelimit-Next by 0 | 0/60 reset 20s"},

		// RateLimit-Reset, an instant or a delay.
		{"Hetzner", 429, []string{dated, "RateLimit-Limit: 3600", "RateLimit-Remaining: 0", "RateLimit-Reset: 1772366401"}, "1s Ratelimit-Reset by 0 | 0/3600 reset 1s"},
		{"Rack::Attack", 429, []string{dated, "RateLimit-Limit: 5", "RateLimit-Remaining: 0", "RateLimit-Reset: 1772366415"}, "15s Ratelimit-Reset by 0 | 0/5 reset 15s"},
		{"SharePoint", 429, []string{"RateLimit-Limit: 1200", "RateLimit-Remaining: 0", "RateLimit-Reset: 31", "Retry-After: 31"}, "31s Retry-After by 0 | 0/1200 reset 31s"},
		{"Resend", 429, []string{"ratelimit-policy: 2;w=1", "ratelimit-limit: 2", "ratelimit-remaining: 0", "ratelimit-reset: 1", "retry-after: 1"}, "1s Retry-After by 0 | 0/2 reset 1s window 1s"},
		{"draft -00 with a date", 429, []string{dated, "RateLimit-Limit: 5", "RateLimit-Remaining: 0", "RateLimit-Reset: Sun, 01 Mar 2026 12:00:09 GMT"}, "9s Ratelimit-Reset by 0 | 0/5 reset 9s"},
		{"express draft-6, blanks in the policy", 200, []string{"RateLimit-Policy: 100; w=900", "RateLimit-Limit: 100", "RateLimit-Remaining: 99", "RateLimit-Reset: 900"}, "nothing | 99/100 reset 15m0s window 15m0s"},
		{"express draft-7", 429, []string{"RateLimit-Policy: 100;w=900", "RateLimit: limit=100, remaining=0, reset=613"}, "10m13s Ratelimit by 0 | 0/100 reset 10m13s window 15m0s"},
		{"draft -07 beside its predecessor", 429, []string{"RateLimit: limit=100, remaining=0", "RateLimit-Limit: 100", "RateLimit-Remaining: 0", "RateLimit-Reset: 7"}, "7s Ratelimit-Reset by 0 | 0/100 reset 7s"},
		{"draft -07, an unknown member", 429, []string{"RateLimit: limit=100;x=1, remaining=0, reset=5, note"}, "5s Ratelimit by 0 | 0/100 reset 5s"},
		{"IETF counters, an X- reset", 429, []string{dated, "RateLimit-Limit: 10", "RateLimit-Remaining: 0", "X-RateLimit-Limit: 10", "X-RateLimit-Reset: 1772366405"}, "5s X-Ratelimit-Reset by 0 | 0/10 reset 5s"},

		// Structured fields.
		{"Cloudflare", 429, []string{`Ratelimit: "default";r=0;t=12`, `Ratelimit-Policy: "default";q=1200;w=300`}, "12s Ratelimit by 0 | default 0/1200 reset 12s window 5m0s"},
		{"two limits, one spent", 429, []string{`RateLimit: "account";r=7;t=1, "sender";r=0;t=2`, "Retry-After: 2"}, "2s Retry-After by 1 | account 7/? reset 1s | sender 0/? reset 2s"},
		{"two limits, both spent, the wait is of one", 429, []string{`RateLimit: "account";r=0;t=1, "sender";r=0;t=9`, "Retry-After: 1"}, "1s Retry-After by 0 | account 0/? reset 1s | sender 0/? reset 9s"},
		{"two limits, both spent, the longer governs", 429, []string{`RateLimit: "account";r=0;t=1, "sender";r=0;t=9`}, "9s Ratelimit by 1 | account 0/? reset 1s | sender 0/? reset 9s"},
		{"a limit without r that refused", 429, []string{`RateLimit: "sender";t=2`, "Retry-After: 2"}, "2s Retry-After by 0 | sender ?/? reset 2s"},
		{"nothing usable but the policy", 429, []string{`RateLimit: "a";r=few`, `RateLimit-Policy: "a";q=5;w=1`}, "nothing | a ?/5 window 1s"},
		{"r of the wrong type", 429, []string{`RateLimit: "a";r="0";t=5, "b";r=0;t=3`}, "3s Ratelimit by 0 | b 0/? reset 3s"},
		{"r is a decimal", 429, []string{`RateLimit: "a";r=0.0;t=5`}, "nothing"},
		{"r is negative", 429, []string{`RateLimit: "a";r=-1;t=5`}, "nothing"},
		{"t is negative", 429, []string{`RateLimit: "a";r=0;t=-5`}, "nothing"},
		{"a name that is a number", 429, []string{`RateLimit: 100;r=0;t=5`}, "nothing"},
		{"an inner list beside an item", 429, []string{`RateLimit: ("a" "b");r=0;t=5, "c";r=0;t=4`}, "4s Ratelimit by 0 | c 0/? reset 4s"},
		{"the last of a repeated parameter counts", 429, []string{`RateLimit: "a";r=5;r=0;t=9;t=3`}, "3s Ratelimit by 0 | a 0/? reset 3s"},
		{"a policy of the wrong type is ignored alone", 200, []string{`RateLimit: "a";r=5;t=9`, `RateLimit-Policy: "a";q="100";w=60`}, "nothing | a 5/? reset 9s"},
		{"one bad line voids the field", 429, []string{`RateLimit: "a";r=0;t=9`, `RateLimit: "b;r=0;t=9`}, "nothing"},
		{"a window over a year", 200, []string{`RateLimit: "a";r=5;t=9`, `RateLimit-Policy: "a";q=100;w=999999999`}, "nothing | a 5/100 reset 9s"},
		{"a window of zero", 200, []string{`RateLimit-Policy: "a";q=100;w=0`}, "nothing | a ?/100"},
		{"policies alone", 200, []string{`RateLimit-Policy: "burst";q=10;w=1, "day";q=1000;w=86400`}, "nothing | burst ?/10 window 1s | day ?/1000 window 24h0m0s"},
		{"only policies, unnamed", 200, []string{`RateLimit-Policy: 10;w=1`}, "nothing"},

		// X- fields that are delays.
		{"Reddit, spent", 429, []string{"x-ratelimit-used: 600", "x-ratelimit-remaining: 0.0", "x-ratelimit-reset: 312"}, "5m12s X-Ratelimit-Reset by 0 | 0/? reset 5m12s"},
		{"envoyproxy/ratelimit", 429, []string{"x-ratelimit-limit: 5, 5;w=60", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 14"}, "14s X-Ratelimit-Reset by 0 | 0/5 reset 14s window 1m0s"},
		{"RapidAPI, a plan's hard limit", 429, []string{"x-ratelimit-rapid-free-plans-hard-limit-limit: 500000", "x-ratelimit-rapid-free-plans-hard-limit-remaining: 0", "x-ratelimit-rapid-free-plans-hard-limit-reset: 1728000"}, "480h0m0s X-Ratelimit-Rapid-Free-Plans-Hard-Limit-Reset by 0 | rapid-free-plans-hard-limit 0/500000 reset 480h0m0s"},
		{"Datadog, the period rules milliseconds out", 429, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Period: 86400", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 45000"}, "12h30m0s X-Ratelimit-Reset by 0 | 0/10 reset 12h30m0s window 24h0m0s"},
		{"Brave, parallel lists", 429, []string{"X-RateLimit-Limit: 1, 15000", "X-RateLimit-Policy: 1;w=1, 15000;w=2592000", "X-RateLimit-Remaining: 0, 1000", "X-RateLimit-Reset: 1, 1419704"}, "1s X-Ratelimit-Reset by 0 | 0/1 reset 1s window 1s | 1000/15000 reset 394h21m44s window 720h0m0s"},
		{"copies of one limit joined by a gateway", 429, []string{"X-RateLimit-Limit: 10, 10", "X-RateLimit-Remaining: 0, 0", "X-RateLimit-Reset: 30, 30"}, "30s X-Ratelimit-Reset by 0 | 0/10 reset 30s"},
		{"Strava, reads beside all", 429, []string{"X-RateLimit-Limit: 200,2000", "X-RateLimit-Usage: 100,2000", "X-ReadRateLimit-Limit: 100,1000", "X-ReadRateLimit-Usage: 1,2"}, "nothing | 100/200 | 0/2000 | read 99/100 | read 998/1000"},

		// Milliseconds, minutes and durations.
		{"KuCoin, an instant all the same", 429, []string{dated, "gw-ratelimit-limit: 500", "gw-ratelimit-remaining: 0", "gw-ratelimit-reset: 1772366430000"}, "30s Gw-Ratelimit-Reset by 0 | 0/500 reset 30s"},
		{"reset in milliseconds by name", 429, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset-Ms: 2500"}, "2.5s X-Ratelimit-Reset-Ms by 0 | 0/? reset 2.5s"},
		{"a delay in milliseconds by name", 429, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After-Ms: 2500"}, "2.5s X-Ratelimit-Reset-After-Ms by 0 | 0/? reset 2.5s"},
		{"milliseconds without a dash", 429, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-ResetMilliseconds: 2500"}, "2.5s X-Ratelimit-Resetmilliseconds by 0 | 0/? reset 2.5s"},
		{"an instant in milliseconds by name", 429, []string{dated, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset-Ms: 1772366402500"}, "2.5s X-Ratelimit-Reset-Ms by 0 | 0/? reset 2.5s"},
		{"Together, limits by the window of a duration", 429, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Window: 1m", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 45000"}, "45s X-Ratelimit-Reset by 0 | 0/10 reset 45s window 1m0s"},
		{"Cerebras, units and windows in names", 429, []string{"x-ratelimit-limit-requests-day: 14400", "x-ratelimit-remaining-requests-day: 14399", "x-ratelimit-reset-requests-day: 33011.38", "x-ratelimit-limit-tokens-minute: 60000", "x-ratelimit-remaining-tokens-minute: 0", "x-ratelimit-reset-tokens-minute: 11.38"}, "11.38s X-Ratelimit-Reset-Tokens-Minute by 1 | requests-day(requests) 14399/14400 reset 9h10m11.38s window 24h0m0s | tokens-minute(tokens) 0/60000 reset 11.38s window 1m0s"},
		{"Anthropic, input tokens", 200, []string{dated, "anthropic-ratelimit-input-tokens-limit: 50000", "anthropic-ratelimit-input-tokens-remaining: 0", "anthropic-ratelimit-input-tokens-reset: 2026-03-01T12:00:04Z"}, "4s Anthropic-Ratelimit-Input-Tokens-Reset by 0 | input-tokens(tokens) 0/50000 reset 4s"},
		{"Anthropic, a window in the name", 429, []string{dated, "anthropic-ratelimit-unified-5h-status: rejected", "anthropic-ratelimit-unified-5h-reset: 1772375400", "anthropic-ratelimit-unified-7d-status: allowed", "anthropic-ratelimit-unified-7d-reset: 1772971200"}, "2h30m0s Anthropic-Ratelimit-Unified-5h-Reset by 0 | unified-5h 0/? reset 2h30m0s window 5h0m0s | unified-7d ?/? reset 168h0m0s window 168h0m0s"},
		{"Azure OpenAI, sentinels on a 429", 429, []string{"x-ratelimit-limit-tokens: -1", "x-ratelimit-remaining-tokens: -1", "retry-after-ms: 250", "retry-after: 1"}, "250ms Retry-After-Ms"},

		// Other dates.
		{"lemlist", 429, []string{dated, "X-RateLimit-Limit: 20", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: Sun Mar 01 2026 12:00:02 GMT+0000 (Coordinated Universal Time)"}, "2s X-Ratelimit-Reset by 0 | 0/20 reset 2s"},
		{"go-limiter", 429, []string{dated, "X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: Sun, 01 Mar 2026 12:00:09 UTC", "Retry-After: Sun, 01 Mar 2026 12:00:09 UTC"}, "9s Retry-After by 0 | 0/5 reset 9s"},
		{"MWS, by the hour", 503, []string{dated, "x-mws-quota-max: 3600.0", "x-mws-quota-remaining: 10.0", "x-mws-quota-resetsOn: Sun, 01 Mar 2026 12:30:00 GMT"}, "nothing | 10/3600 reset 30m0s"},

		// Counters without a reset.
		{"HubSpot, by the second", 429, []string{"X-HubSpot-RateLimit-Secondly: 10", "X-HubSpot-RateLimit-Secondly-Remaining: 0"}, "nothing | secondly 0/10 window 1s"},
		{"Contentful, a shared reset", 429, []string{"X-Contentful-RateLimit-Hour-Limit: 36000", "X-Contentful-RateLimit-Hour-Remaining: 35990", "X-Contentful-RateLimit-Second-Limit: 10", "X-Contentful-RateLimit-Second-Remaining: 0", "X-Contentful-RateLimit-Reset: 1"}, "1s X-Contentful-Ratelimit-Reset by 1 | hour 35990/36000 reset 1s window 1h0m0s | second 0/10 reset 1s window 1s"},
		{"Mistral, by size", 200, []string{"ratelimitbysize-limit: 2000000", "ratelimitbysize-remaining: 1999000", "ratelimitbysize-reset: 32"}, "nothing | size(tokens) 1999000/2000000 reset 32s"},
		{"Pinterest, several prefixes", 200, []string{"x-userendpoint-ratelimit-remaining: 999", "x-userendpoint-ratelimit-limit: 1000", "x-ratelimit-limit: 5, 5;w=1"}, "nothing | ?/5 window 1s | userendpoint 999/1000"},
		{"EVE Online, a group and a window", 429, []string{"X-Ratelimit-Group: char-detail", "X-Ratelimit-Limit: 150/15m", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Used: 5", "Retry-After: 37"}, "37s Retry-After by 0 | char-detail 0/150 window 15m0s"},
		{"Imgur, posts", 200, []string{"X-Post-Rate-Limit-Limit: 1250", "X-Post-Rate-Limit-Remaining: 1249", "X-Post-Rate-Limit-Reset: 3600"}, "nothing | post 1249/1250 reset 1h0m0s"},
		{"Linear, an endpoint", 200, []string{dated, "X-RateLimit-Endpoint-Requests-Limit: 30", "X-RateLimit-Endpoint-Requests-Remaining: 29", "X-RateLimit-Endpoint-Requests-Reset: 1772366460000", "X-RateLimit-Endpoint-Name: issueCreate"}, "nothing | endpoint-requests(requests) 29/30 reset 1m0s"},
		{"Xero names the problem", 429, []string{"Retry-After: 40000", "X-Rate-Limit-Problem: minute", "X-MinLimit-Remaining: 0", "X-DayLimit-Remaining: 0"}, "11h6m40s Retry-After by 1 | day 0/? window 24h0m0s | minute 0/? window 1m0s"},
		{"Discogs, nothing left by use", 200, []string{"X-Discogs-Ratelimit: 60", "X-Discogs-Ratelimit-Used: 61"}, "nothing | 0/60"},
		{"Riot, a count with another window", 200, []string{"X-App-Rate-Limit: 20:1,100:120", "X-App-Rate-Limit-Count: 3:1"}, "nothing | app 17/20 window 1s | app ?/100 window 2m0s"},

		{"Kong, one reset for two windows", 429, []string{"X-RateLimit-Limit-Second: 1", "X-RateLimit-Remaining-Second: 0", "X-RateLimit-Limit-Minute: 5", "X-RateLimit-Remaining-Minute: 4", "X-RateLimit-Reset: 45"}, "45s X-Ratelimit-Reset by 1 | minute 4/5 reset 45s window 1m0s | second 0/1 reset 45s window 1s"},
		{"Sentry API, concurrent calls", 200, []string{"X-Sentry-Rate-Limit-ConcurrentLimit: 25", "X-Sentry-Rate-Limit-ConcurrentRemaining: 24"}, "nothing | concurrent 24/25"},
		{"Jira, near the limit, a reset alone", 429, []string{"X-RateLimit-NearLimit: true", "X-RateLimit-Reset: 5"}, "5s X-Ratelimit-Reset by 0 | ?/? reset 5s"},

		{"one reset in milliseconds for two limits", 429, []string{"X-RateLimit-Global-Remaining: 0", "X-RateLimit-Route-Remaining: 4", "X-RateLimit-Reset: 45000", "X-RateLimit-Window: 60"}, "45s X-Ratelimit-Reset by 0 | global 0/? reset 45s window 1m0s | route 4/? reset 45s window 1m0s"},
		{"a window in a name is no measure of a reset", 429, []string{"X-Contentful-RateLimit-Second-Remaining: 0", "X-Contentful-RateLimit-Reset: 42"}, "42s X-Contentful-Ratelimit-Reset by 0 | second 0/? reset 42s window 1s"},
		{"nor is one in a policy", 429, []string{"RateLimit-Limit: 10, 10;w=1", "RateLimit-Remaining: 0", "RateLimit-Reset: 42"}, "42s Ratelimit-Reset by 0 | 0/10 reset 42s window 1s"},
		{"a reset over the window in either unit", 429, []string{"X-RateLimit-Window: 60", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 100000"}, "27h46m40s X-Ratelimit-Reset by 0 | 0/? reset 27h46m40s window 1m0s"},
		{"the window of the quota in force", 200, []string{"X-RateLimit-Limit: 10, 50;w=60, 10;w=1", "X-RateLimit-Remaining: 9"}, "nothing | 9/10 window 1s"},
		{"a name of two words", 429, []string{"X-RateLimit-Remaining-Quota: 0", "X-RateLimit-Max-Limit: 9", "X-RateLimit-Next-Reset: 5"}, "5s X-Ratelimit-Next-Reset by 0 | 0/9 reset 5s"},
		{"a delay by its name is no instant", 429, []string{dated, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 1772366460", "X-RateLimit-Reset: 1772366405"}, "5s X-Ratelimit-Reset by 0 | 0/? reset 5s"},
		{"the drafts before the others", 429, []string{"RateLimit-Remaining: 0", "RateLimit-Reset: 5", "X-RateLimit-Remaining-Day: 0", "X-RateLimit-Reset-Day: 7200"}, "5s Ratelimit-Reset by 0 | 0/? reset 5s | day 0/? reset 2h0m0s window 24h0m0s"},
		{"a day of two dialects", 200, []string{"X-Limit-Per-Day: 10", "X-DayLimit-Remaining: 3"}, "nothing | day 3/? window 24h0m0s | day ?/10 window 24h0m0s"},

		{"a window in a word", 200, []string{"X-RateLimit-Limit: 9", "X-RateLimit-Window: minute"}, "nothing | ?/9 window 1m0s"},
		{"a window in minutes", 200, []string{"X-RateLimit-Limit: 9", "X-RateLimit-Window-Minutes: 15"}, "nothing | ?/9 window 15m0s"},
		{"a window over a year, and none", 200, []string{"X-RateLimit-Limit: 9", "X-RateLimit-Window: 99999999", "X-RateLimit-Remaining-Day: 5", "X-RateLimit-Window-Day: "}, "nothing | ?/9 | day 5/? window 24h0m0s"},
		{"a unit that is a name", 200, []string{"X-RateLimit-Remaining-Minutes: 5"}, "nothing | minutes 5/? window 1m0s"},
		{"what X- fields know more", 200, []string{"RateLimit-Remaining: 3", "X-RateLimit-Limit: 9", "X-RateLimit-Window: 60", "X-RateLimit-Resource: core"}, "nothing | core 3/9 window 1m0s"},
		{"what X- fields know less", 200, []string{"RateLimit-Limit: 8", "X-RateLimit-Remaining: 3"}, "nothing | 3/8"},
		{"a policy by name", 200, []string{`RateLimit-Policy: "a";q=x;w=5, "b";q=9;w=60`, "RateLimit-Limit: 9"}, "nothing | ?/9 window 1m0s"},
		{"a broken X- policy", 200, []string{"X-RateLimit-Policy: 9;", "X-RateLimit-Limit: 9;"}, "nothing | ?/9"},
		{"a limit per nothing", 200, []string{"X-RateLimit-Limit: 9/x"}, "nothing"},
		{"parallel lists of unequal length", 200, []string{"X-RateLimit-Limit: 9, 90", "X-RateLimit-Usage: 1"}, "nothing | 8/9"},

		// Own syntaxes.
		{"Jira, on trial", 429, []string{`Beta-RateLimit: "global-app-quota";r=0;t=5`, `Beta-RateLimit-Policy: "global-app-quota";q=65000;w=3600`}, "5s Beta-Ratelimit by 0 | global-app-quota 0/65000 reset 5s window 1h0m0s"},
		{"draft-polli-00", 200, []string{"RateLimit-Limit: 10, 10;window=1", "RateLimit-Remaining: 9"}, "nothing | 9/10 window 1s"},
		{"Meta, ads insights", 200, []string{`X-FB-Ads-Insights-Throttle: {"app_id_util_pct":100,"acc_id_util_pct":10}`}, "nothing | ads insights acc_id_util_pct(percent) 90/100 | ads insights app_id_util_pct(percent) 0/100"},
		{"Zendesk, more to come", 200, []string{"zendesk-ratelimit-search-index: total=2500; remaining=2499; resets=59"}, "nothing | search-index 2499/2500 reset 59s"},
		{"Sentry, every category", 429, []string{"X-Sentry-Rate-Limits: 2700::organization"}, "45m0s X-Sentry-Rate-Limits by 0 | 0/? reset 45m0s"},
		{"Sentry, a float and rubbish", 429, []string{"X-Sentry-Rate-Limits: 1.5:error:key, x:error, :"}, "1.5s X-Sentry-Rate-Limits by 0 | error 0/? reset 1.5s"},
		{"Meta, two businesses", 200, []string{`X-Business-Use-Case-Usage: {"2":[{"type":"pages","call_count":1,"total_cputime":2,"total_time":"3","estimated_time_to_regain_access":0}],"1":[{"type":"ads","call_count":120,"estimated_time_to_regain_access":5}]}`}, "5m0s X-Business-Use-Case-Usage by 0 | ads(percent) 0/100 reset 5m0s | pages(percent) 97/100 reset 0s"},
		{"Meta, an ad account", 200, []string{`X-Ad-Account-Usage: {"acc_id_util_pct":9.67,"reset_time_duration":100,"ads_api_access_tier":"standard_access"}`}, "nothing | ad account acc_id_util_pct(percent) 90.33/100 reset 1m40s"},
		{"Meta, broken JSON", 429, []string{`X-App-Usage: {"call_count":28,`}, "nothing"},
		{"Meta, another shape", 429, []string{`X-Business-Use-Case-Usage: [1,2]`}, "nothing"},
		{"Salesforce, rubbish", 200, []string{"Sforce-Limit-Info: api-usage=x/y"}, "nothing"},
		{"Azure, rubbish", 200, []string{"x-ms-ratelimit-remaining-resource: a,b;c;;,;5"}, "nothing | 5/?"},
		{"Shopify, over the limit", 429, []string{"X-Shopify-Shop-Api-Call-Limit: 41/40"}, "nothing | 0/40"},

		// Advice.
		{"MailerLite before X- counters", 429, []string{"X-RateLimit-Retry-After: 42", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, "42s X-Ratelimit-Retry-After by 0 | 0/? reset 1m0s"},
		{"X-Retry-After before the others", 429, []string{"X-Retry-After: 4", "X-RateLimit-Retry-After: 5", "RateLimit-Retry-After: 6", "X-Retry-In: 7s"}, "4s X-Retry-After"},
		{"oxy alone", 429, []string{"X-Retry-In: 30s"}, "30s X-Retry-In"},
		{"advice of a vendor's", 429, []string{"X-Acme-RateLimit-Retry-After: 6"}, "6s X-Acme-Ratelimit-Retry-After"},
		{"milliseconds confirm a date", 429, []string{dated, "Retry-After: Sun, 01 Mar 2026 12:00:02 GMT", "Retry-After-Ms: 1500"}, "1.5s Retry-After-Ms"},
		{"an unreadable Retry-After before a reset", 429, []string{"Retry-After: soon", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 9"}, "9s X-Ratelimit-Reset by 0 | 0/? reset 9s"},
		{"numbers joined by a gateway", 429, []string{"Retry-After: 10, 20"}, "20s Retry-After"},
		{"a decimal comma", 429, []string{"Retry-After: 1,5"}, "nothing"},
		{"quoted", 429, []string{`Retry-After: "7"`}, "7s Retry-After"},
		{"empty", 429, []string{"Retry-After: "}, "nothing"},
		{"a stored response keeps Retry-After", 503, []string{"Date: Sun, 01 Mar 2026 11:59:00 GMT", "Age: 60", "Retry-After: Sun, 01 Mar 2026 12:00:30 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 5"}, "30s Retry-After"},

		{"a response stored for longer than anything", 429, []string{"Age: 99999999999", "RateLimit-Remaining: 0", "RateLimit-Reset: 5"}, "nothing"},
		{"no age", 429, []string{"Age: -5", "RateLimit-Remaining: 0", "RateLimit-Reset: 5"}, "5s Ratelimit-Reset by 0 | 0/? reset 5s"},

		// What looks like a limit and is none.
		{"Envoy's mark", 429, []string{"X-Envoy-Ratelimited: true"}, "nothing"},
		{"a limit of something else", 200, []string{"X-Upload-Limit: 5", "X-Limit: 7", "Limit: 3", "X-Credits: 3.5", "X-Quota: none"}, "nothing"},
		{"words, no numbers", 429, []string{"X-RateLimit-Reset: soon", "X-RateLimit-Limit: many"}, "nothing"},
		{"exposed names are no fields", 200, []string{"Access-Control-Expose-Headers: X-RateLimit-Limit, X-RateLimit-Reset"}, "nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Parse(c.status, head(c.lines...), received)
			checkBounds(t, got)
			assert.Equal(t, c.want, summary(got))
		})
	}
}
