package limiter

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// The names of fields as net/http keeps them.
const (
	fieldState   = "Ratelimit"
	fieldPolicy  = "Ratelimit-Policy"
	legacyLimit  = "X-Ratelimit-Limit"
	legacyLeft   = "X-Ratelimit-Remaining"
	legacyReset  = "X-Ratelimit-Reset"
	largestField = 999_999_999_999_999 // of an integer: RFC 9651 section 3.3.1
)

// setFields sets the fields of an answer to a request that was admitted.
func (b *bill) setFields(g *guard, h http.Header, d *Decision) {
	state, policy, _ := b.fields(g, -1, d.Delay)
	values := [...]string{state, policy}
	addField(h, fieldState, values[0:1:1])
	addField(h, fieldPolicy, values[1:2:2])
	if g.legacy {
		b.setLegacy(g, h, d, d.Delay)
	}
}

// addField adds one line to those that an outer Guard may have set.
func addField(h http.Header, name string, line []string) {
	if before := h[name]; len(before) > 0 {
		line = append(before[:len(before):len(before)], line[0])
	}
	h[name] = line
}

// fields returns RateLimit, RateLimit-Policy and Retry-After. No t is later than
// retryAfter, which is negative if there is none: RFC 9110 knows one instant to
// come back at, and the draft wants it not to be before the end of any window
// shown. The decisions are of so long ago.
func (b *bill) fields(g *guard, retryAfter int64, ago time.Duration) (state, policy, again string) {
	text := b.text[:0]
	for i := range b.charges {
		if b.repeats(i) {
			continue
		}
		if len(text) > 0 {
			text = append(text, ", "...)
		}
		c, d := &b.charges[i], &b.each[i]
		text = appendName(text, c.Limit.name)
		text = append(text, ";r="...)
		text = strconv.AppendInt(text, min(max(d.Remaining, 0), largestField), 10)
		if more, known := b.untilMore(g, i, ago); known {
			if t := seconds(more); retryAfter < 0 || t <= retryAfter {
				text = append(text, ";t="...)
				text = strconv.AppendInt(text, t, 10)
			}
		}
		text = appendPartition(text, g.partition, c.Key)
	}
	end := len(text)
	if policy = b.knownPolicy(g); policy == "" {
		text = b.appendPolicies(text, g)
	}
	second := len(text)
	if retryAfter > 0 {
		text = strconv.AppendInt(text, retryAfter, 10)
	}
	b.text = text
	all := string(text) // one allocation
	if policy == "" {
		policy = all[end:second]
	}
	return all[:end], policy, all[second:]
}

// appendPolicies appends RateLimit-Policy.
func (b *bill) appendPolicies(text []byte, g *guard) []byte {
	begin := len(text)
	for i := range b.charges {
		if b.repeats(i) {
			continue
		}
		if len(text) > begin {
			text = append(text, ", "...)
		}
		text = appendPolicy(text, b.charges[i].Limit)
		text = appendPartition(text, g.partition, b.charges[i].Key)
	}
	return text
}

// repeats reports whether a charge is to a limit and key that came before: both
// were summed, and are one item.
func (b *bill) repeats(i int) bool {
	for j := range i {
		if b.charges[j].Limit == b.charges[i].Limit && b.charges[j].Key == b.charges[i].Key {
			return true
		}
	}
	return false
}

// knownPolicy is the RateLimit-Policy that was made in advance, if one rule with
// fixed limits is all that applies. Outside of a Guard there are no rules.
func (b *bill) knownPolicy(g *guard) string {
	if g.partition != nil || len(b.owners) == 0 {
		return ""
	}
	first := b.owners[0]
	for _, owner := range b.owners[1:] {
		if owner != first {
			return ""
		}
	}
	return g.rules[first].policy
}

// policyField is the RateLimit-Policy of limits.
func policyField(limits []*Limit) string {
	var text []byte
	for i, l := range limits {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = appendPolicy(text, l)
	}
	return string(text)
}

func appendPolicy(text []byte, l *Limit) []byte {
	text = appendName(text, l.name)
	text = append(text, ";q="...)
	text = strconv.AppendInt(text, min(l.Quota(), largestField), 10)
	if w := l.Window(); w >= time.Second {
		text = append(text, ";w="...)
		text = strconv.AppendInt(text, seconds(w), 10)
	}
	return text
}

// appendName appends a name as an RFC 9651 string. Names are printable ASCII.
func appendName(text []byte, name string) []byte {
	text = append(text, '"')
	for i := range len(name) {
		if name[i] == '"' || name[i] == '\\' {
			text = append(text, '\\')
		}
		text = append(text, name[i])
	}
	return append(text, '"')
}

// appendPartition appends a hash of the key, 96 bits, under a secret.
func appendPartition(text, secret []byte, key string) []byte {
	if secret == nil {
		return text
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(key))
	text = append(text, ";pk=:"...)
	text = base64.StdEncoding.AppendEncode(text, h.Sum(nil)[:12])
	return append(text, ':')
}

// untilMore is how long no more than what is left can be used: for a limit that
// refuses, until it would not.
func untilMore(l *Limit, d *Decision) time.Duration {
	if d.RetryAfter > 0 && !d.Never {
		return d.RetryAfter
	}
	if rate := l.Rate(); rate.Count > 0 {
		// Of a bucket all is back after ResetAfter, and one unit each interval.
		if missing := l.Quota() - d.Remaining - 1; missing > 0 {
			return max(0, d.ResetAfter-interval(missing, rate))
		}
		return d.ResetAfter
	}
	if w := l.Window(); w > 0 {
		return min(d.ResetAfter, w) // a counter remembers two
	}
	return d.ResetAfter
}

// interval is the time in which a rate gives n units, rounded down.
func interval(n int64, r Rate) time.Duration {
	hi, lo := bits.Mul64(uint64(n), uint64(r.Per))
	if hi >= uint64(r.Count) {
		return 0
	}
	d, _ := bits.Div64(hi, lo, uint64(r.Count))
	return time.Duration(min(d, 1<<62))
}

// units is how many a rate gives in d, rounded down.
func units(d time.Duration, r Rate) int64 {
	hi, lo := bits.Mul64(uint64(d), uint64(r.Count))
	if hi >= uint64(r.Per) {
		return 1 << 62
	}
	n, _ := bits.Div64(hi, lo, uint64(r.Per))
	return int64(min(n, 1<<62))
}

// seconds rounds up to whole seconds.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// setLegacy sets the X-RateLimit fields of the limit that decided, unless an
// outer Guard has told of one with less.
func (b *bill) setLegacy(g *guard, h http.Header, d *Decision, ago time.Duration) {
	i := b.deciding(d)
	l, e := b.charges[i].Limit, &b.each[i]
	left := max(e.Remaining, 0)
	if before := h[legacyLeft]; len(before) > 0 {
		if n, err := strconv.ParseInt(before[0], 10, 64); err == nil && n < left && d.Allowed {
			return
		}
	}
	more, _ := b.untilMore(g, i, ago)
	if kind := l.rule.Kind(); kind == rule.FixedWindow || kind == rule.Calendar {
		// The window of all answers ends in one second, although each is computed at
		// another moment a little after its decision.
		more -= time.Millisecond
	}
	at := time.Now().Add(more)
	reset := at.Unix()
	if at.Nanosecond() > 0 {
		reset++
	}
	values := [...]string{strconv.FormatInt(l.Quota(), 10), strconv.FormatInt(left, 10), strconv.FormatInt(reset, 10)}
	h[legacyLimit], h[legacyLeft], h[legacyReset] = values[0:1:1], values[1:2:2], values[2:3:3]
}
