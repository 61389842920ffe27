package headerparse

import (
	"bytes"
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

// A word is what ends or begins the part of a name behind the stem. The rest
// names the limit, so both X-RateLimit-Remaining-Tokens and
// X-RateLimit-Tokens-Remaining say what is left of the tokens.
type word struct {
	role  role
	alone bool // says nothing beside other words
}

// words are of one or of two parts. The longer one counts.
var words = map[string]word{
	"burst-capacity":  {roleQuota, false},
	"capacity":        {roleQuota, false},
	"limit":           {roleQuota, false},
	"quota":           {roleQuota, false},
	"total":           {roleQuota, false},
	"max":             {roleQuota, false},
	"remaining":       {roleRemaining, false},
	"available":       {roleRemaining, false},
	"remain":          {roleRemaining, false},
	"left":            {roleRemaining, false},
	"usage":           {roleUsed, false},
	"used":            {roleUsed, false},
	"reset-after":     {roleResetAfter, false},
	"reset-in":        {roleResetAfter, false},
	"next-reset":      {roleReset, false},
	"time-reset":      {roleReset, false},
	"resetson":        {roleReset, false},
	"resets":          {roleReset, false},
	"reset":           {roleReset, false},
	"reset-timestamp": {roleResetTime, false},
	"reset-date":      {roleResetTime, false},
	"reset-time":      {roleResetTime, false},
	"resettime":       {roleResetTime, false},
	"reset-at":        {roleResetTime, false},
	"resetat":         {roleResetTime, false},
	"next":            {roleResetTime, true},
	"renewal-period":  {roleWindow, false},
	"renewalperiod":   {roleWindow, false},
	"time-window":     {roleWindow, false},
	"interval":        {roleWindow, false},
	"duration":        {roleWindow, false},
	"window":          {roleWindow, false},
	"period":          {roleWindow, false},
	"policy":          {rolePolicy, true},
	"status":          {roleStatus, false},
	"resource":        {roleResource, true},
	"bucket":          {roleLabel, true},
	"group":           {roleLabel, true},
	"name":            {roleLabel, true},
	"problem":         {roleProblem, true},
	"retry-after":     {roleRetry, false},
	"retry-in":        {roleRetry, false},
}

// readWords takes apart what follows a stem: what the field says, of which
// limit, and in which unit, where the name fixes it.
func readWords(rest string) (r role, limit string, u unit) {
	if rest == "" {
		return roleQuota, "", byValue
	}
	body, u := cutUnit(rest)
	r, limit = readBody(body)
	if u != byValue && r != roleReset && r != roleResetAfter && r != roleResetTime && r != roleWindow && r != roleRetry {
		u = byValue
		r, limit = readBody(rest) // no unit, part of the limit's name
	}
	if r == roleResetAfter && u == byValue {
		u = onlyDelay
	}
	return r, limit, u
}

// readBody is readWords without the unit. The word that says what the field is
// comes last or first; both orders are common.
func readBody(body string) (r role, limit string) {
	var space [maxName]byte
	low := appendLower(space[:0], body)
	if w, ok := words[string(low)]; ok {
		return w.role, ""
	}
	last := bytes.LastIndexByte(low, '-')
	if last > 0 {
		if prior := bytes.LastIndexByte(low[:last], '-'); prior > 0 {
			if w, ok := words[string(low[prior+1:])]; ok && !w.alone {
				return finer(w.role, low[:prior], body[:prior])
			}
		}
		if w, ok := words[string(low[last+1:])]; ok && !w.alone {
			return finer(w.role, low[:last], body[:last])
		}
		first := bytes.IndexByte(low, '-')
		if next := bytes.IndexByte(low[first+1:], '-') + first + 1; next > first {
			if w, ok := words[string(low[:next])]; ok && !w.alone {
				return w.role, body[next+1:]
			}
		}
		if w, ok := words[string(low[:first])]; ok && !w.alone {
			return w.role, body[first+1:]
		}
	}
	for _, w := range glued {
		if len(low) > len(w.text) && hasSuffixFold(body, w.text) {
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

// finer settles a name of which both parts have a role, such as
// limit-remaining: it is about one limit, and the more telling role counts.
// low is the other part in lower case.
func finer(r role, low []byte, other string) (role, string) {
	w, ok := words[string(low)]
	switch {
	case !ok || w.alone:
		return r, other
	case r == roleQuota:
		return w.role, ""
	}
	return r, ""
}

func cutUnit(rest string) (body string, u unit) {
	if n := len(rest) - len("milliseconds"); n > 0 && rest[n-1] != '-' && equalFold(rest[n:], "milliseconds") {
		return rest[:n], inMillis // ResetMilliseconds
	}
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
