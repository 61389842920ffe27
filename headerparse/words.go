package headerparse

import (
	"strings"
	"time"
)

const day = 24 * time.Hour

// A role is what a field says about the limit it belongs to.
type role uint8

const (
	noRole         role = iota
	roleQuota           // how much in all
	roleRemaining       // how much is left
	roleUsed            // how much is gone
	roleResetAfter      // when there is more: a delay by its name
	roleReset           // the same, as a delay or an instant
	roleResetTime       // the same, in a second field
	roleWindow          // over which time the quota is counted
	rolePolicy          // quota and window in one: 100;w=60
	roleStatus          // whether it is spent, in words
	roleResource        // the limit's name
	roleLabel           // the same, in a field that is less certain
	roleProblem         // the name of the limit that refused
	roleRetry           // advice
	roles
)

// words are what ends or begins the part of a name behind the stem: the longer
// first. The rest names the limit, so both X-RateLimit-Remaining-Tokens and
// X-RateLimit-Tokens-Remaining say what is left of the tokens.
var words = []struct {
	text  string
	role  role
	alone bool // says nothing beside other words
}{
	{"reset-timestamp", roleResetTime, false},
	{"burst-capacity", roleQuota, false},
	{"renewal-period", roleWindow, false},
	{"renewalperiod", roleWindow, false},
	{"reset-after", roleResetAfter, false},
	{"retry-after", roleRetry, false},
	{"time-window", roleWindow, false},
	{"next-reset", roleReset, false},
	{"reset-date", roleResetTime, false},
	{"reset-time", roleResetTime, false},
	{"time-reset", roleReset, false},
	{"resettime", roleResetTime, false},
	{"remaining", roleRemaining, false},
	{"available", roleRemaining, false},
	{"resource", roleResource, true},
	{"interval", roleWindow, false},
	{"capacity", roleQuota, false},
	{"retry-in", roleRetry, false},
	{"reset-at", roleResetTime, false},
	{"reset-in", roleResetAfter, false},
	{"resetson", roleReset, false},
	{"duration", roleWindow, false},
	{"problem", roleProblem, true},
	{"resetat", roleResetTime, false},
	{"status", roleStatus, false},
	{"remain", roleRemaining, false},
	{"policy", rolePolicy, true},
	{"window", roleWindow, false},
	{"period", roleWindow, false},
	{"bucket", roleLabel, true},
	{"resets", roleReset, false},
	{"reset", roleReset, false},
	{"limit", roleQuota, false},
	{"quota", roleQuota, false},
	{"total", roleQuota, false},
	{"usage", roleUsed, false},
	{"group", roleLabel, true},
	{"used", roleUsed, false},
	{"left", roleRemaining, false},
	{"name", roleLabel, true},
	{"next", roleResetTime, true},
	{"max", roleQuota, false},
}

// readWords takes apart what follows a stem: what the field says, of which
// limit, and in which unit, where the name fixes it.
func readWords(rest string) (r role, limit string, u unit) {
	if rest == "" {
		return roleQuota, "", byValue
	}
	body, u := cutUnit(rest)
	r, limit = readBody(body)
	if u != byValue && r != roleReset && r != roleResetTime && r != roleWindow && r != roleRetry {
		u = byValue
		r, limit = readBody(rest) // no unit, part of the limit's name
	}
	if r == roleResetAfter && u == byValue {
		u = onlyDelay
	}
	return r, limit, u
}

func readBody(body string) (r role, limit string) {
	for i := range words {
		if equalFold(body, words[i].text) {
			return words[i].role, ""
		}
	}
	for i := range words {
		w := &words[i]
		if w.alone || len(body) < len(w.text)+2 {
			continue
		}
		if at := len(body) - len(w.text); body[at-1] == '-' && hasPrefixFold(body[at:], w.text) {
			return finer(w.role, body[:at-1])
		}
	}
	for i := range words {
		w := &words[i]
		if w.alone || len(body) < len(w.text)+2 {
			continue
		}
		if body[len(w.text)] == '-' && hasPrefixFold(body, w.text) {
			return w.role, body[len(w.text)+1:]
		}
	}
	for _, w := range glued {
		if len(body) > len(w.text) && hasSuffixFold(body, w.text) {
			return w.role, body[:len(body)-len(w.text)]
		}
	}
	if spanOf(body) > 0 {
		return roleQuota, body // X-HubSpot-RateLimit-Daily
	}
	return noRole, ""
}

// glued are the words that some services write without the dash: UserLimit.
var glued = []struct {
	text string
	role role
}{
	{"remaining", roleRemaining},
	{"resettime", roleResetTime},
	{"limit", roleQuota},
	{"reset", roleReset},
}

// finer settles a name of two words that both have a role, such as
// limit-remaining: it is about one limit, and the more telling role counts.
func finer(r role, other string) (role, string) {
	for i := range words {
		if w := &words[i]; !w.alone && equalFold(other, w.text) {
			if w.role == roleQuota {
				return r, ""
			}
			if r == roleQuota {
				return w.role, ""
			}
			return r, ""
		}
	}
	return r, other
}

func cutUnit(rest string) (body string, u unit) {
	i := strings.LastIndexByte(rest, '-')
	if i <= 0 {
		return rest, byValue
	}
	switch w := rest[i+1:]; {
	case equalFold(w, "ms"), equalFold(w, "milliseconds"), equalFold(w, "millis"):
		return rest[:i], inMillis
	case equalFold(w, "minutes"):
		return rest[:i], inMinutes
	case equalFold(w, "seconds"), equalFold(w, "secs"):
		return rest[:i], byValue
	}
	return rest, byValue
}

// spans are the words for stretches of time.
var spans = []struct {
	text string
	span time.Duration
}{
	{"second", time.Second},
	{"minute", time.Minute},
	{"hour", time.Hour},
	{"day", day},
	{"week", 7 * day},
	{"month", 30 * day},
	{"year", 365 * day},
	{"secondly", time.Second},
	{"minutely", time.Minute},
	{"hourly", time.Hour},
	{"daily", day},
	{"weekly", 7 * day},
	{"monthly", 30 * day},
	{"yearly", 365 * day},
	{"sec", time.Second},
	{"min", time.Minute},
	{"hr", time.Hour},
	{"seconds", time.Second},
	{"minutes", time.Minute},
	{"hours", time.Hour},
	{"days", day},
	{"mins", time.Minute},
	{"today", day},
}

// spanOf is the time that a word names: minute, daily, 24hour, 5h, 10s. Zero
// if it names none.
func spanOf(word string) time.Duration {
	digits := 0
	for digits < len(word) && isDigit(word[digits]) {
		digits++
	}
	n, _ := parseNumber(word[:digits])
	base := word[digits:]
	var span time.Duration
	if digits > 0 && len(base) == 1 {
		switch lower(base[0]) {
		case 's':
			span = time.Second
		case 'm':
			span = time.Minute
		case 'h':
			span = time.Hour
		case 'd':
			span = day
		case 'w':
			span = 7 * day
		}
	}
	for i := range spans {
		if equalFold(base, spans[i].text) {
			span = spans[i].span
			break
		}
	}
	if digits == 0 || span == 0 {
		return span
	}
	d, _ := number{whole: n.whole}.times(span)
	return d
}

// windowOf is the window in a limit's name: in its last word, else its first.
func windowOf(name string) time.Duration {
	if name == "" {
		return 0
	}
	if d := spanOf(name[strings.LastIndexAny(name, "-_ ")+1:]); d > 0 {
		return d
	}
	if i := strings.IndexAny(name, "-_ "); i > 0 {
		return spanOf(name[:i])
	}
	return 0
}

// units are the words in a limit's name that say what it counts.
var units = []struct{ word, unit string }{
	{"requests", "requests"},
	{"tokens", "tokens"},
	{"request", "requests"},
	{"req", "requests"},
	{"reqs", "requests"},
	{"credits", "credits"},
	{"messages", "messages"},
	{"points", "points"},
	{"bytes", "bytes"},
	{"errors", "errors"},
}

func unitOf(name string) string {
	for name != "" {
		word := name
		if i := strings.IndexAny(name, "-_ "); i >= 0 {
			word, name = name[:i], name[i+1:]
		} else {
			name = ""
		}
		for i := range units {
			if equalFold(word, units[i].word) {
				return units[i].unit
			}
		}
	}
	return ""
}

// scopes are the prefixes that say whose limit it is. Any other prefix is the
// vendor's name.
var scopes = []string{
	"user", "app", "application", "account", "client", "ip", "key", "token", "org", "organization",
	"team", "project", "tenant", "workspace", "endpoint", "userendpoint", "method", "route", "api",
	"global", "burst", "read", "write", "post", "search", "upload", "day", "daily", "hour", "minute", "second", "month",
}

func isScope(prefix string) bool {
	for _, s := range scopes {
		if equalFold(prefix, s) {
			return true
		}
	}
	return false
}
