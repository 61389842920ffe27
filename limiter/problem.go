package limiter

import (
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/politehttp/polite/internal/rule"
)

// A refusal is why a request is not admitted.
type refusal uint8

const (
	notRefused   refusal = iota
	spent                // a limit has not enough left
	tooCostly            // and never will have
	queueTooLong         // the wait in a LeakyQueue would be too long
	tooHasty             // and be it empty, for the time that the request has
	tooManyHeld          // or too many are waiting
	hungUp               // the request ended while it was held
	storeFailed          // and a limit is Closed
)

// reason is why a decision refuses.
func reason(d *Decision) refusal {
	switch {
	case d.Allowed:
		return notRefused
	case d.Degraded != nil && (d.By == nil || d.By.OnFailure != Local):
		return storeFailed
	case d.Never:
		return tooCostly
	}
	return spent
}

// quotaExceededHead begins a problem of the type, and with the title, that
// draft-ietf-httpapi-ratelimit-headers-11 has in section 5.1.
var quotaExceededHead = string(appendProblemHead(nil,
	"https://iana.org/assignments/http-problem-types#quota-exceeded",
	"Request cannot be satisfied as assigned quota has been exceeded", http.StatusTooManyRequests))

// misleading are fields about a representation that a refusal is not.
// Content-Encoding is not among them: who has set it outside encodes the answer.
var misleading = []string{
	"Age", "Cdn-Cache-Control", "Content-Length", "Content-Range", "Content-Disposition",
	"Etag", "Expires", "Last-Modified", "Pragma", "Surrogate-Control",
}

// refuse answers a request that is not admitted.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, b *bill, d *Decision, why refusal) {
	status, retryAfter := http.StatusTooManyRequests, max(1, seconds(d.RetryAfter))
	switch why {
	case tooCostly, tooHasty:
		retryAfter = -1
	case storeFailed, hungUp:
		status = http.StatusServiceUnavailable
	}
	h := w.Header()
	own := make(lines, 0, 5)
	var again string // Retry-After
	if d.Degraded == nil {
		var state, policy string
		state, policy, again = b.fields(g, retryAfter, 0)
		addField(h, fieldState, own.add(state))
		addField(h, fieldPolicy, own.add(policy))
		if g.legacy {
			b.setLegacy(g, h, d, 0)
		}
	} else if retryAfter > 0 {
		again = strconv.FormatInt(retryAfter, 10)
	}
	if status == http.StatusTooManyRequests && g.degrade != nil {
		setRefusal(h, again, &own)
		closeAfter(h, r)
		g.degrade.ServeHTTP(w, withDecision(r, d))
		return
	}
	b.text = g.appendProblem(b.text[:0], b, d, status, retryAfter, why)
	answerProblem(w, r, status, again, &own, b.text)
}

// answerNoPlan answers a request for which a Tier has no limit.
func (g *guard) answerNoPlan(w http.ResponseWriter, r *http.Request) {
	text := appendProblemHead(nil, "", "Forbidden", http.StatusForbidden)
	text = append(text, "No limits are set for this caller, so nothing is allowed."...)
	text = g.appendContact(append(text, '"'))
	answerProblem(w, r, http.StatusForbidden, "", new(lines), text)
}

// lines are those of an answer's fields, together as one allocation is cheaper
// than as one each. Who appends to one gets a copy.
type lines []string

func (l *lines) add(value string) []string {
	*l = append(*l, value)
	n := len(*l)
	return (*l)[n-1 : n : n]
}

// setRefusal sets what every refusal has, whatever was set before.
func setRefusal(h http.Header, again string, own *lines) {
	ours := 0
	if h[fieldState] != nil {
		ours = 2 // and RateLimit-Policy
	}
	if len(h) > ours {
		for _, name := range misleading {
			delete(h, name)
		}
	}
	h["Cache-Control"] = own.add("no-store")
	if again != "" {
		h["Retry-After"] = own.add(again)
	} else {
		delete(h, "Retry-After")
	}
}

func answerProblem(w http.ResponseWriter, r *http.Request, status int, again string, own *lines, body []byte) {
	h := w.Header()
	setRefusal(h, again, own)
	h["Content-Type"] = own.add("application/problem+json")
	closeAfter(h, r)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

// closeAfter has net/http close the connection if it cannot know how much of a
// body is to come. It reads some of it first otherwise.
func closeAfter(h http.Header, r *http.Request) {
	if r.ContentLength < 0 && r.ProtoMajor == 1 {
		h["Connection"] = []string{"close"}
	}
}

// appendProblem appends the body of a refusal: a problem (RFC 9457) whose
// members beyond the common ones are violated-policies, as the draft has it,
// and limit, quota, remaining, cost, retry_after and contact.
func (g *guard) appendProblem(text []byte, b *bill, d *Decision, status int, retryAfter int64, why refusal) []byte {
	switch why {
	case storeFailed:
		text = appendProblemHead(text, "", "Service Unavailable", status)
		text = append(text, "The limits cannot be looked up at the moment, and without them nothing is let through here."...)
		text = appendTryAgain(text, retryAfter)
	case hungUp:
		text = appendProblemHead(text, "", "Service Unavailable", status)
		text = append(text, "The request ended while it waited its turn."...)
		text = appendTryAgain(text, retryAfter)
	default:
		i := b.deciding(d)
		said := g.saidOf(b.charges[i].Limit)
		text = append(text, quotaExceededHead...)
		cost := b.total(i)
		text = g.appendReason(text, said, b.charges[i].Limit, cost, b.each[i].Remaining, why)
		text = appendTryAgain(text, retryAfter)
		text = b.appendViolated(text, i, said.name)
		text = append(text, said.members...)
		text = appendMember(text, "remaining", max(b.each[i].Remaining, 0))
		if cost > 0 {
			text = appendMember(text, "cost", cost)
		}
	}
	if retryAfter > 0 {
		text = appendMember(text, "retry_after", retryAfter)
	}
	return g.appendContact(text)
}

// appendProblemHead begins a problem, up to within its detail.
func appendProblemHead(text []byte, kind, title string, status int) []byte {
	if kind == "" {
		kind = "about:blank"
	}
	text = append(text, `{"type":"`...)
	text = append(text, kind...)
	text = append(text, `","title":"`...)
	text = append(text, title...)
	text = append(text, `","status":`...)
	text = strconv.AppendInt(text, int64(status), 10)
	return append(text, `,"detail":"`...)
}

// appendReason appends the first sentence of the detail. A cost of 0 is not known.
func (g *guard) appendReason(text []byte, said *said, l *Limit, cost, left int64, why refusal) []byte {
	switch why {
	case queueTooLong:
		text = append(text, "The queue is too long for this request to wait in, under limit "...)
	case tooManyHeld:
		text = append(text, "Too many requests are waiting their turn, this one under limit "...)
	case tooHasty:
		text = append(text, "This request ends before its turn can come, though it were the only one, under limit "...)
	default:
		switch {
		case cost > 1:
			text = append(text, "This request costs "...)
			text = strconv.AppendInt(text, cost, 10)
			text = append(text, ", more than "...)
		case cost == 0 && (left > 0 || why == tooCostly):
			text = append(text, "This request costs more than "...)
		default:
			text = append(text, "Nothing "...)
		}
		if why == tooCostly {
			text = append(text, "can ever pass limit "...)
		} else {
			text = append(text, "is left of limit "...)
		}
	}
	text = append(text, said.words...)
	if why == tooCostly {
		text = append(text, " Waiting will not help; ask for at most "...)
		text = strconv.AppendInt(text, g.mostAtOnce(l), 10)
		text = append(text, " at once."...)
	}
	if why == tooHasty {
		text = append(text, " Waiting will not help; the request needs more time."...)
	}
	return text
}

// mostAtOnce is the largest cost that a limit admits.
func (g *guard) mostAtOnce(l *Limit) int64 {
	if g.maxDelay < 0 || l.rule.Kind() != rule.LeakyQueue {
		return l.Quota()
	}
	return min(l.Quota(), units(g.maxDelay, l.Rate()))
}

// said is a limit as it stands in problems.
type said struct {
	words   string // in a sentence, with the end of that
	name    string // as a string of JSON
	members string
}

func newSaid(l *Limit) *said {
	name := string(appendJSON(nil, l.name))
	return &said{
		words:   `\"` + string(appendEscaped(nil, l.name)) + `\" (` + string(appendEscaped(nil, l.words())) + ").",
		name:    name,
		members: string(appendMember([]byte(`,"limit":`+name), "quota", l.Quota())),
	}
}

// saidOf is made in advance for limits that are known then.
func (g *guard) saidOf(l *Limit) *said {
	if s, ok := g.said[l]; ok {
		return s
	}
	return newSaid(l)
}

// appendTryAgain appends the last sentence of the detail, and ends it.
func appendTryAgain(text []byte, retryAfter int64) []byte {
	if retryAfter > 0 {
		text = append(text, " Try again in "...)
		text = strconv.AppendInt(text, retryAfter, 10)
		text = append(text, " second"...)
		if retryAfter > 1 {
			text = append(text, 's')
		}
		text = append(text, '.')
	}
	return append(text, '"')
}

// appendViolated appends the names of all limits that refuse, of which one is known
// as JSON.
func (b *bill) appendViolated(text []byte, known int, name string) []byte {
	text = append(text, `,"violated-policies":[`...)
	first := true
	for i := range b.charges {
		if b.each[i].Allowed || b.repeats(i) {
			continue
		}
		if !first {
			text = append(text, ',')
		}
		first = false
		if i == known {
			text = append(text, name...)
		} else {
			text = appendJSON(text, b.charges[i].Limit.name)
		}
	}
	return append(text, ']')
}

// appendContact ends a problem.
func (g *guard) appendContact(text []byte) []byte {
	if g.contact != "" {
		text = append(text, `,"contact":`...)
		text = appendJSON(text, g.contact)
	}
	return append(text, '}')
}

func appendMember(text []byte, name string, n int64) []byte {
	text = append(text, ',', '"')
	text = append(text, name...)
	text = append(text, '"', ':')
	return strconv.AppendInt(text, n, 10)
}

// appendJSON appends s as a JSON string.
func appendJSON(text []byte, s string) []byte {
	text = append(text, '"')
	return append(appendEscaped(text, s), '"')
}

// appendEscaped appends s as it stands in a JSON string.
func appendEscaped(text []byte, s string) []byte {
	const hex = "0123456789abcdef"
	text = slices.Grow(text, len(s))
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			text = append(text, '\\', byte(c))
		case c < ' ' || c == '<' || c == '>' || c == '&':
			text = append(text, `\u00`...)
			text = append(text, hex[c>>4], hex[c&15])
		default:
			text = utf8.AppendRune(text, c)
		}
	}
	return text
}
