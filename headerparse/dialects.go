package headerparse

import "time"

// A dialect is a way to name and write limit fields. Most services differ in
// little more than a prefix, which the words of words.go read without a row
// here; a row is for what those words would not find or would get wrong.
type dialect struct {
	who  string // whose it is, for people
	stem string // how its field names begin, in lower case

	exact bool     // the stem is the whole name
	ends  []ending // if there are any, nothing else may follow the stem

	syntax syntax
	name   string        // begins the name of each limit
	unit   string        // what its limits count, if the name does not say
	window time.Duration // if the name does not say
	reset  unit          // of a plain number that says when
}

// An ending is what may follow a stem, without the dash between.
type ending struct {
	text string
	role role
	name string // the limit it belongs to
}

// A syntax is how the values of a dialect are written.
type syntax uint8

const (
	counters    syntax = iota // a number a field
	advice                    // no limit, just how long to wait
	items                     // RateLimit of the IETF drafts since -07
	policies                  // RateLimit-Policy
	usedOfQuota               // 32/40
	usageList                 // api-usage=17/5000, …
	rate                      // calls a second
	perWindow                 // 20:1,100:120 and the used ones alike
	totals                    // total=100; remaining=0; resets=17
	resources                 // Microsoft.Compute/LowCostGet3Min;3997,…
	categories                // 60:error;default:organization, …
	weight                    // used units; the window is in the name
	percents                  // {"call_count":28,…}
	accounts                  // {"123":[{"type":"ads_insights",…}]}
)

// dialects is the table of them. The first row that fits a name counts, so
// the order of the advice rows is the order in which advice is taken.
//
// Rows without ends and with the syntax of counters read what follows the
// stem by the words of words.go.
var dialects = []dialect{
	{who: "RFC 9110 section 10.2.3", stem: "retry-after", exact: true, syntax: advice},
	{who: "OpenAI, Azure OpenAI, Azure App Configuration", stem: "retry-after-ms", exact: true, syntax: advice, reset: inMillis},
	{who: "Azure Cosmos DB", stem: "x-ms-retry-after-ms", exact: true, syntax: advice, reset: inMillis},
	{who: "several", stem: "x-retry-after-ms", exact: true, syntax: advice, reset: inMillis},
	{who: "several", stem: "x-retry-after", exact: true, syntax: advice},
	{who: "Symfony, MailerLite", stem: "x-ratelimit-retry-after", exact: true, syntax: advice},
	{who: "WooCommerce", stem: "ratelimit-retry-after", exact: true, syntax: advice},
	{who: "oxy, Traefik", stem: "x-retry-in", exact: true, syntax: advice, reset: onlyDelay},

	{who: "IETF drafts -07 to -11, Cloudflare, Hugging Face, PyPI", stem: "ratelimit", exact: true, syntax: items},
	{who: "IETF drafts -04 to -11", stem: "ratelimit-policy", exact: true, syntax: policies},
	{who: "Jira Cloud, on trial", stem: "beta-ratelimit", exact: true, syntax: items},
	{who: "Jira Cloud, on trial", stem: "beta-ratelimit-policy", exact: true, syntax: policies},
	{who: "IETF drafts -00 to -06; GitLab, DigitalOcean, Hetzner, Twitch with instants", stem: "ratelimit"},
	{who: "GitHub, Auth0, Reddit, Discord, Linear, OpenAI, Kong, Envoy and most others", stem: "x-ratelimit"},
	{who: "BigCommerce", stem: "x-rate-limit", ends: []ending{
		{"requests-left", roleRemaining, ""},
		{"requests-quota", roleQuota, ""},
		{"time-reset-ms", roleReset, ""},
		{"time-window-ms", roleWindow, ""},
	}},
	{who: "X, Okta, Mapbox, Trello, Xero", stem: "x-rate-limit"},
	{who: "Xendit", stem: "rate-limit"},

	{who: "X, by user and day", stem: "x-user-limit-24hour", name: "user-24hour", window: day},
	{who: "X, by app and day", stem: "x-app-limit-24hour", name: "app-24hour", window: day},
	{who: "KuCoin", stem: "gw-ratelimit", reset: inMillis},
	{who: "Bybit", stem: "x-bapi-limit", ends: []ending{
		{"", roleQuota, ""},
		{"status", roleRemaining, ""},
		{"reset-timestamp", roleReset, ""},
	}},
	{who: "Mistral", stem: "x-ratelimitbysize", name: "size", unit: "tokens"},
	{who: "Mistral", stem: "ratelimitbysize", name: "size", unit: "tokens"},
	{who: "EVE Online", stem: "x-esi-error-limit", name: "errors", unit: "errors"},
	{who: "Amazon MWS", stem: "x-mws-quota"},
	{who: "several", stem: "x-quota"},
	{who: "CoinMarketCap", stem: "x-credits", name: "credits", unit: "credits", ends: []ending{
		{"limit-month", roleQuota, "month"},
		{"remaining-month", roleRemaining, "month"},
	}},
	{who: "Etsy", stem: "x", ends: []ending{
		{"limit-per-second", roleQuota, "second"},
		{"remaining-this-second", roleRemaining, "second"},
		{"remaining-this-secon", roleRemaining, "second"}, // as it was sent for years
		{"limit-per-day", roleQuota, "day"},
		{"remaining-today", roleRemaining, "day"},
	}},
	{who: "Xero", stem: "x", ends: []ending{
		{"minlimit-remaining", roleRemaining, "minute"},
		{"daylimit-remaining", roleRemaining, "day"},
		{"appminlimit-remaining", roleRemaining, "app-minute"},
	}},

	{who: "Shopify", stem: "x-shopify-shop-api-call-limit", exact: true, syntax: usedOfQuota},
	{who: "Salesforce", stem: "sforce-limit-info", exact: true, syntax: usageList, window: day},
	{who: "Amazon SP-API", stem: "x-amzn-ratelimit-limit", exact: true, syntax: rate, unit: "requests/second", window: time.Second},
	{who: "Riot Games, by app", stem: "x-app-rate-limit", syntax: perWindow, name: "app", ends: []ending{
		{"", roleQuota, ""},
		{"count", roleUsed, ""},
	}},
	{who: "Riot Games, by method", stem: "x-method-rate-limit", syntax: perWindow, name: "method", ends: []ending{
		{"", roleQuota, ""},
		{"count", roleUsed, ""},
	}},
	{who: "Zendesk, by endpoint", stem: "zendesk-ratelimit", syntax: totals},
	{who: "Azure Resource Manager, by resource", stem: "x-ms-ratelimit-remaining-resource", exact: true, syntax: resources},
	{who: "Sentry, on ingestion", stem: "x-sentry-rate-limits", exact: true, syntax: categories},
	{who: "Binance", stem: "x-mbx-used-weight", syntax: weight, name: "weight", unit: "weight"},
	{who: "Meta, by app", stem: "x-app-usage", exact: true, syntax: percents, name: "app", unit: "percent"},
	{who: "Meta, by page", stem: "x-page-usage", exact: true, syntax: percents, name: "page", unit: "percent"},
	{who: "Meta, by ad account", stem: "x-ad-account-usage", exact: true, syntax: percents, name: "ad account", unit: "percent"},
	{who: "Meta, ads insights", stem: "x-fb-ads-insights-throttle", exact: true, syntax: percents, name: "ads insights", unit: "percent"},
	{who: "Meta, by business", stem: "x-business-use-case-usage", exact: true, syntax: accounts, unit: "percent"},
}

// anyVendor is the row of names that hold "ratelimit" or "rate-limit" behind a
// prefix of which no row knows.
var anyVendor = dialect{who: "everyone else"}

// spare are the beginnings of names that the word "limit" does not give away;
// spareAt has a bit for each by its third and fifth letter.
var spare, spareAt = func() (stems []string, at [16]uint64) {
	add := func(name string) {
		if name[0] == 'x' && len(name) > 4 && indexFold(name, "limit") < 0 {
			stems = append(stems, name)
			i := spareIndex(name)
			at[i/64] |= 1 << (i % 64)
		}
	}
	for _, d := range dialects {
		for _, e := range d.ends {
			add(d.stem + "-" + e.text)
		}
		if len(d.ends) == 0 {
			add(d.stem)
		}
	}
	return stems, at
}()

func spareIndex(name string) uint {
	return uint(name[2]&31)<<5 | uint(name[4]&31)
}
