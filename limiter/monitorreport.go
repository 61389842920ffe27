package limiter

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// ServeHTTP answers GET with the counts. They are read one after the other
// while requests go on, so sums may be off by those under way.
func (m *Monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "GET, please", http.StatusMethodNotAllowed)
		return
	}
	body, err := json.MarshalIndent(m.report(time.Now()), "", "  ")
	if err != nil { // cannot be: there are only numbers and text
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(body, '\n'))
}

// The names below are those of the Monitor's documentation.

type monitorReport struct {
	Since     time.Time      `json:"since"`
	Seconds   float64        `json:"seconds"`
	NearBelow float64        `json:"near_below"`
	Requests  requestsReport `json:"requests"`
	DryRun    requestsReport `json:"dry_run"`
	Limits    []limitReport  `json:"limits"`
	Top       *topReport     `json:"top_refused"`
	TopBefore *topReport     `json:"top_refused_before"`
	Store     *storeReport   `json:"store"`
}

type requestsReport struct {
	Admitted     int64   `json:"admitted"`
	Refused      int64   `json:"refused"`
	RefusedShare float64 `json:"refused_share"`
	NearLimit    int64   `json:"near_limit"`
	NearShare    float64 `json:"near_share"`
	Degraded     int64   `json:"degraded"`
	Overflowed   int64   `json:"overflowed"`
}

type limitReport struct {
	Name          string         `json:"name"`
	Rule          string         `json:"rule"`
	Quota         int64          `json:"quota"`
	DryRun        bool           `json:"dry_run"`
	Admitted      int64          `json:"admitted"`
	NearLimit     int64          `json:"near_limit"`
	NearShare     float64        `json:"near_share"`
	Refused       int64          `json:"refused"`
	AdmittedUnits int64          `json:"admitted_units"`
	RefusedUnits  int64          `json:"refused_units"`
	Never         int64          `json:"never"`
	WindowSeconds float64        `json:"window_seconds"`
	Windows       []windowReport `json:"windows"`
}

type windowReport struct {
	Start        time.Time `json:"start"`
	RefusedUnits int64     `json:"refused_units"`
}

type topReport struct {
	Since    time.Time   `json:"since"`
	Until    *time.Time  `json:"until"`
	Refusals int64       `json:"refusals"`
	MaxError int64       `json:"max_error"`
	Keys     []keyReport `json:"keys"`
}

type keyReport struct {
	Key     string `json:"key"`
	Limit   string `json:"limit"`
	DryRun  bool   `json:"dry_run"`
	Refused int64  `json:"refused"`
	Error   int64  `json:"error"`
}

type storeReport struct {
	Keys       int   `json:"keys"`
	Overflow   int   `json:"overflow_keys"`
	Bytes      int64 `json:"bytes"`
	Overflowed int64 `json:"overflowed"`
}

func (m *Monitor) report(now time.Time) *monitorReport {
	m.begin()
	r := &monitorReport{
		Since: m.start.UTC(), Seconds: now.Sub(m.start).Seconds(), NearBelow: orDefault(m.NearBelow, 0.2),
		Requests: m.live.report(), DryRun: m.trial.report(), Limits: m.reportLimits(),
	}
	r.Top, r.TopBefore = m.top.report(orDefault(m.TopSpan, time.Hour), now)
	if m.Memory != nil {
		s := m.Memory.Stats()
		r.Store = &storeReport{s.Keys, s.Overflow, s.Bytes, s.Overflowed}
	}
	return r
}

func (c *requestCounts) report() requestsReport {
	r := requestsReport{
		Admitted: c.admitted.Load(), Refused: c.refused.Load(), NearLimit: c.near.Load(),
		Degraded: c.degraded.Load(), Overflowed: c.overflowed.Load(),
	}
	r.RefusedShare, r.NearShare = share(r.Refused, r.Admitted+r.Refused), share(r.NearLimit, r.Admitted)
	return r
}

// share is part of whole; 0 of nothing.
func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// reportLimits reports the limits that were charged: the largest excess first,
// and after it what has most left to say.
func (m *Monitor) reportLimits() []limitReport {
	m.mu.Lock()
	counts := make([]*limitCounts, 0, len(m.limits)+1)
	for _, c := range m.limits {
		counts = append(counts, c)
	}
	m.mu.Unlock()
	list := make([]limitReport, 0, len(counts))
	for _, c := range append(counts, m.other) {
		for _, trial := range []bool{false, true} {
			if r := c.report(trial); r.Admitted+r.Refused > 0 {
				list = append(list, r)
			}
		}
	}
	slices.SortFunc(list, func(a, b limitReport) int {
		return cmp.Or(cmp.Compare(b.RefusedUnits, a.RefusedUnits), cmp.Compare(b.Refused, a.Refused),
			cmp.Compare(b.AdmittedUnits, a.AdmittedUnits), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Quota, b.Quota))
	})
	return list
}

func (c *limitCounts) report(trial bool) limitReport {
	t := c.tally(trial)
	r := limitReport{
		Name: c.name, Rule: c.rule, Quota: c.quota, DryRun: trial, WindowSeconds: c.window.Seconds(),
		Admitted: t.admitted.Load(), NearLimit: t.near.Load(), AdmittedUnits: t.units.Load(),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Refused, r.Never, r.RefusedUnits = t.refused, t.never, t.refusedUnits
	r.NearShare = share(r.NearLimit, r.Admitted)
	r.Windows = make([]windowReport, 0, len(t.windows))
	for _, w := range t.windows {
		r.Windows = append(r.Windows, windowReport{w.start, w.units})
	}
	return r
}

// report returns the list under way and the one before; nil for those that have
// nobody.
func (t *refusedKeys) report(span time.Duration, now time.Time) (current, before *topReport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(span, now)
	if t.now != nil {
		current = reportTop(t.now, t.since, nil)
	}
	if t.before != nil {
		before = reportTop(t.before, t.was, &t.expired)
	}
	return current, before
}

func reportTop(top *topKeys[refusedKey], since time.Time, until *time.Time) *topReport {
	r := &topReport{Since: since.UTC(), Refusals: top.total, MaxError: top.bound(), Keys: []keyReport{}}
	if until != nil {
		t := until.UTC()
		r.Until = &t
	}
	for _, c := range top.list() {
		r.Keys = append(r.Keys, keyReport{c.key.key, c.key.limit, c.key.trial, c.count, c.err})
	}
	return r
}
