package limiter

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Policies returns a handler that tells the API's consumers the rules: as JSON,
// or as one page of HTML if the Accept field prefers text/html. The page says
// what the fields of an answer mean and shows a client in Go and a line for
// curl; it loads nothing from elsewhere. Rules on trial are not told, nor where
// limits are kept and what they do when that fails.
//
// It panics as Handler does. It is not limited itself, unless a Guard is put
// before it.
func (g *Guard) Policies() http.Handler {
	g.compiled()
	told := g.told()
	asJSON, err := json.MarshalIndent(told, "", "  ")
	if err != nil { // cannot be: strings and numbers
		panic(err)
	}
	asJSON = append(asJSON, '\n')
	page := told.page(g.URL)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the limits can be read, not changed", http.StatusMethodNotAllowed)
			return
		}
		body := asJSON
		h.Set("Vary", "Accept")
		h.Set("Cache-Control", "max-age=300")
		h.Set("X-Content-Type-Options", "nosniff")
		if prefersHTML(r.Header.Values("Accept")) {
			body = page
			h.Set("Content-Type", "text/html; charset=utf-8")
			h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")
		} else {
			h.Set("Content-Type", "application/json")
		}
		h.Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(body)
		}
	})
}

// The types below are what Policies writes as JSON.
type toldPolicies struct {
	Title   string     `json:"title"`
	Contact string     `json:"contact,omitempty"`
	Rules   []toldRule `json:"rules"`
}

type toldRule struct {
	Title   string      `json:"title,omitempty"`
	Pattern string      `json:"pattern"`          // as http.ServeMux writes it; empty: every request
	Weighed bool        `json:"weighed"`          // a request may cost more than 1
	Limits  []toldLimit `json:"limits,omitempty"` // all apply
	ByPlan  bool        `json:"by_plan"`          // which limits apply depends on the caller
	Plans   []toldPlan  `json:"plans,omitempty"`  // as far as they are told
}

type toldPlan struct {
	Name   string      `json:"name"`
	Limits []toldLimit `json:"limits"`
}

type toldLimit struct {
	Name    string    `json:"name"`
	Rule    string    `json:"rule"`
	Summary string    `json:"summary"`
	Quota   int64     `json:"quota"`
	Window  float64   `json:"window_seconds,omitempty"`
	Rate    *toldRate `json:"rate,omitempty"`
	Period  string    `json:"period,omitempty"`
	Zone    string    `json:"zone,omitempty"`
}

type toldRate struct {
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"`
}

func (g *Guard) told() toldPolicies {
	told := toldPolicies{Title: g.Title, Contact: g.Contact, Rules: []toldRule{}}
	if told.Title == "" {
		told.Title = "Rate limits"
	}
	for _, r := range g.Rules {
		if r.DryRun {
			continue
		}
		t := toldRule{Title: r.Title, Pattern: r.Pattern, Weighed: r.Cost != nil, Limits: tellLimits(r.Limits), ByPlan: r.Tier != nil}
		for _, p := range r.Plans {
			t.Plans = append(t.Plans, toldPlan{Name: p.Name, Limits: tellLimits(p.Limits)})
		}
		told.Rules = append(told.Rules, t)
	}
	return told
}

func tellLimits(limits []*Limit) []toldLimit {
	var all []toldLimit
	for _, l := range limits {
		t := toldLimit{Name: l.name, Rule: l.Kind(), Summary: l.words(), Quota: l.Quota()}
		if rate := l.Rate(); rate.Count > 0 {
			t.Rate = &toldRate{Count: rate.Count, Seconds: rate.Per.Seconds()}
		} else if w := l.Window(); w > 0 {
			t.Window = w.Seconds()
		}
		if period, zone := l.Calendar(); zone != nil {
			t.Period, t.Zone = period.word(), zone.String()
		}
		all = append(all, t)
	}
	return all
}

// words says in a few words what a limit allows.
func (l *Limit) words() string {
	quota := grouped(l.Quota())
	rate := l.Rate()
	pace := grouped(rate.Count) + " per " + span(rate.Per)
	switch l.Kind() {
	case "token_bucket", "leaky_meter":
		return pace + ", up to " + quota + " at once"
	case "leaky_queue":
		return pace + ", one after the other, up to " + quota + " waiting"
	case "sliding_counter":
		return "about " + quota + " in any " + span(l.Window())
	case "sliding_log", "sliding_buckets":
		return quota + " in any " + span(l.Window())
	case "calendar":
		period, zone := l.Calendar()
		return quota + " per " + period.word() + " (" + zone.String() + ")"
	}
	return quota + " per " + span(l.Window())
}

// grouped writes a number as 1,000,000.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func (p Period) word() string {
	if p == Month {
		return "month"
	}
	return "day"
}

// span says how long a window is: "minute", "30 seconds", "250ms".
func span(d time.Duration) string {
	for _, unit := range []struct {
		name string
		time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		switch n := d / unit.Duration; {
		case d%unit.Duration != 0 || n == 0:
		case n == 1:
			return unit.name
		default:
			return strconv.FormatInt(int64(n), 10) + " " + unit.name + "s"
		}
	}
	return d.String()
}

// prefersHTML reports whether the Accept lines want text/html more than JSON
// (RFC 9110 section 12.5.1). Who wants anything is a program.
func prefersHTML(accept []string) bool {
	page, pageRank := quality(accept, "text", "html")
	data, dataRank := quality(accept, "application", "json")
	return page > data || page == data && page > 0 && pageRank > dataRank
}

// quality is the weight of a media type, from its most specific range, and how
// specific that is.
func quality(accept []string, kind, sub string) (weight float64, rank int) {
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(part, ";")
			this := 0
			switch strings.ToLower(strings.TrimSpace(media)) {
			case kind + "/" + sub:
				this = 3
			case kind + "/*":
				this = 2
			case "*/*":
				this = 1
			}
			if this > rank {
				weight, rank = weightOf(params), this
			}
		}
	}
	return weight, rank
}

func weightOf(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(q >= 0 && q <= 1) {
				return 0
			}
			return q
		}
	}
	return 1
}
