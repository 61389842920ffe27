package polite

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/pacer"
)

// Lane is a further pacer, for the requests that match its pattern: a slower
// pace for an expensive path, or one for each sender number. A request leaves
// when the Transport's own Pacer and all of its lanes let it go at once.
type Lane struct {
	// Pattern chooses requests as http.ServeMux writes it, such as
	// "POST /messages" or "api.example.com/", hosts in lower case and without a
	// port. "": every request. Each lane looks for itself, so patterns may repeat
	// and overlap.
	Pattern string

	Pacer *pacer.Pacer               // required
	Key   func(*http.Request) string // nil: the account; requests with the same key, "" too, share a pace
	Cost  func(*http.Request) int64  // nil: Transport.Cost; zero and less: the request does not enter the lane

	// Limits are the names or units of the provider's limits that this lane
	// learns from, or "*": whatever governs an answer to a request of the lane.
	// A told wait goes to the lane that claims the limit that governs it, else
	// to Transport.Pacer. nil: the lane learns nothing. For a lane of each sender,
	// and a provider that does not name its limits: with nil a refusal of one
	// sender holds the account, with "*" that sender alone.
	Limits []string
}

// lane is a Lane with its pattern ready.
type lane struct {
	Lane
	mux *http.ServeMux // nil: every request
}

func compileLanes(lanes []Lane) ([]lane, error) {
	all := make([]lane, len(lanes))
	for i, l := range lanes {
		all[i].Lane = l
		if l.Pacer == nil {
			return nil, fmt.Errorf("polite: Transport.Lanes[%d].Pacer is nil; a lane needs a pacer", i)
		}
		if l.Pattern == "" {
			continue
		}
		if method, _, ok := strings.Cut(l.Pattern, " "); ok && method != strings.ToUpper(method) {
			return nil, fmt.Errorf("polite: Transport.Lanes[%d].Pattern is %q; methods are written in upper case", i, l.Pattern)
		}
		if host := hostOf(l.Pattern); host != strings.ToLower(host) || hasPort(host) && !strings.HasPrefix(l.Pattern, http.MethodConnect) {
			return nil, fmt.Errorf("polite: Transport.Lanes[%d].Pattern is %q; hosts are written in lower case and without a port", i, l.Pattern)
		}
		mux, err := muxFor(l.Pattern)
		if err != nil {
			return nil, fmt.Errorf("polite: Transport.Lanes[%d].Pattern is %q; allowed is a pattern of http.ServeMux: %w", i, l.Pattern, err)
		}
		all[i].mux = mux
	}
	return all, nil
}

// hostOf is what a pattern has before its path.
func hostOf(pattern string) string {
	if i := strings.LastIndexAny(pattern[:max(0, strings.Index(pattern, "/"))], " \t"); i >= 0 {
		pattern = pattern[i+1:]
	}
	host, _, _ := strings.Cut(pattern, "/")
	return host
}

// hasPort reports whether a host has a port, with which it would match nothing:
// ServeMux takes a request's port away, unless its method is CONNECT.
func hasPort(host string) bool {
	_, _, err := net.SplitHostPort(host)
	return err == nil
}

// muxFor turns the panic with which ServeMux refuses a pattern into an error.
func muxFor(pattern string) (mux *http.ServeMux, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	mux = http.NewServeMux()
	mux.Handle(pattern, http.NotFoundHandler())
	return mux, nil
}

func (l *lane) matches(r *http.Request) bool {
	if l.mux == nil {
		return true
	}
	seen := &http.Request{Method: r.Method, Host: r.Host, URL: r.URL} // as the server will see it
	if seen.Method == "" {
		seen.Method = http.MethodGet
	}
	if seen.Host == "" {
		seen.Host = r.URL.Host
	}
	seen.Host = strings.ToLower(seen.Host) // as the origin is
	_, pattern := l.mux.Handler(seen)
	return pattern != ""
}

// enterLanes claims a place in every lane that matches.
func (c *call) enterLanes(r *http.Request) {
	for i := range c.t.lanes {
		l := &c.t.lanes[i]
		if !l.matches(r) {
			continue
		}
		claim := pacer.Claim{Pacer: l.Pacer, Key: c.account, N: c.cost}
		if l.Cost != nil {
			claim.N = l.Cost(r)
		}
		if claim.N <= 0 {
			continue
		}
		if l.Key != nil {
			claim.Key = l.Key(r)
		}
		c.claims = append(c.claims, claim)
		c.lanes = append(c.lanes, l)
	}
}

// learn hands every pacer, and every quota, the part of an answer that is about
// it.
func (c *call) learn(s *headerparse.Signal, now time.Time) {
	rest := s
	if len(c.lanes) > 0 {
		rest = c.teachLanes(*s, now)
	}
	if c.t.Pacer != nil {
		if c.cost > 1 && len(rest.Limits) > 0 {
			rest = inUnits(rest, c.cost)
		}
		c.t.Pacer.Observe(c.account, *rest, now)
	}
	if len(c.t.Quotas) > 0 {
		c.correct(*s)
	}
}

// learnNothing is learn for an answer below 400 that says nothing.
func (c *call) learnNothing(status int) {
	if len(c.lanes) > 0 || len(c.t.Quotas) > 0 {
		c.learn(&headerparse.Signal{Status: status, By: -1}, time.Time{})
	} else if c.t.Pacer != nil {
		c.t.Pacer.Answered(c.account)
	}
}

// inUnits is s for a pacer that counts units of which a request takes so many:
// nine requests left are nine times that.
func inUnits(s *headerparse.Signal, cost int64) *headerparse.Signal {
	scaled := *s
	scaled.Limits = slices.Clone(s.Limits)
	for i := range scaled.Limits {
		l := &scaled.Limits[i]
		if l.Unit != "requests" {
			continue
		}
		if l.Quota > 0 {
			l.Quota *= float64(cost)
		}
		if l.Remaining > 0 {
			l.Remaining *= float64(cost)
		}
	}
	return &scaled
}

// teachLanes returns what no lane claims.
func (c *call) teachLanes(s headerparse.Signal, now time.Time) *headerparse.Signal {
	rest := s
	claims := c.claims[len(c.claims)-len(c.lanes):]
	for i, l := range c.lanes {
		if len(l.Limits) == 0 {
			continue
		}
		claims[i].Pacer.Observe(claims[i].Key, l.part(s), now)
		rest = without(rest, l)
	}
	return &rest
}

// claims reports whether the lane learns from the limit; nil is an answer
// that names none.
func (l *lane) claims(limit *headerparse.Limit) bool {
	if slices.Contains(l.Limits, "*") {
		return true
	}
	return limit != nil && (limit.Name != "" && slices.Contains(l.Limits, limit.Name) ||
		limit.Unit != "" && slices.Contains(l.Limits, limit.Unit))
}

// part is what the lane learns from s: the limits it claims, and the wait and
// the refusal if it claims the limit that governs them.
func (l *lane) part(s headerparse.Signal) headerparse.Signal {
	return split(s, l.claims)
}

// without is what is left of s for the pacers that come after l.
func without(s headerparse.Signal, l *lane) headerparse.Signal {
	return split(s, func(limit *headerparse.Limit) bool { return !l.claims(limit) })
}

// split keeps the limits that the function claims. A wait, and the refusal that
// the status is, go with the limit that governs; a status of zero says nothing.
func split(s headerparse.Signal, claimed func(*headerparse.Limit) bool) headerparse.Signal {
	var governs *headerparse.Limit
	if s.By >= 0 && s.By < len(s.Limits) {
		governs = &s.Limits[s.By]
	}
	part := headerparse.Signal{Status: s.Status, By: -1}
	if claimed(governs) {
		part.Wait, part.Told, part.Source = s.Wait, s.Told, s.Source
	} else {
		part.Status = 0
	}
	for i := range s.Limits {
		if !claimed(&s.Limits[i]) {
			continue
		}
		if i == s.By {
			part.By = len(part.Limits)
		}
		part.Limits = append(part.Limits, s.Limits[i])
	}
	return part
}
