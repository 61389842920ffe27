package shed

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/gradient"
)

const (
	defaultMaxLongLived = 1000
	unlimited           = math.MaxInt32 // as the engine's limit
)

// gate is a Gate that was checked and is ready for use.
type gate struct {
	tenant        func(*http.Request) string
	known         func(*http.Request) bool
	weight        func(*http.Request) int
	priority      func(*http.Request) Class
	trustPriority func(*http.Request) bool
	retriesYield  bool
	noSubCalls    bool

	deadlineHeader, attemptHeader, priorityHeader string // canonical; empty: not read

	healthPaths  []string
	exempt       func(*http.Request) bool
	longLived    func(*http.Request) bool
	maxLongLived int // negative: unbounded
	streams      atomic.Int64
	hooks        *Hooks

	epoch  time.Time // instants are nanoseconds from here
	visits sync.Pool // of *visit
	fixed  int       // Gate.Limit, if it is not adaptive

	mu       sync.Mutex // guards what follows
	engine   *admission.Gate
	adaptive *gradient.Limit // nil: fixed
	pinned   bool            // by SetLimit
	timer    *time.Timer     // nil: nobody has waited yet
	armed    int64           // when the timer fires; math.MaxInt64: not
	shares   shares
	count    counts
	noStream admission.Pressure // of answers that last: they do not keep others away
}

// ownLimit is what the fields say. The lock is held.
func (g *gate) ownLimit() int {
	if g.adaptive != nil {
		return g.adaptive.Limit()
	}
	return g.fixed
}

// Check says what is wrong with the Gate: nil if nothing is, else the first
// fault, with the field, its value, and what is allowed. It changes nothing.
func (g *Gate) Check() error {
	_, err := compile(g)
	return err
}

func compile(g *Gate) (*gate, error) {
	if err := checkFields(g); err != nil {
		return nil, err
	}
	in := &gate{
		tenant: g.Tenant, known: g.Known, weight: g.Weight,
		priority: g.Priority, trustPriority: g.TrustPriority,
		retriesYield: g.RetriesYield, noSubCalls: g.NoSubCalls,
		deadlineHeader: fieldName(g.DeadlineHeader, DeadlineHeader),
		attemptHeader:  fieldName(g.AttemptHeader, AttemptHeader),
		priorityHeader: fieldName(g.PriorityHeader, PriorityHeader),
		healthPaths:    g.HealthPaths, exempt: g.Exempt,
		longLived: g.LongLived, maxLongLived: g.MaxLongLived, hooks: g.Hooks,
		epoch: time.Now(), armed: math.MaxInt64,
		count: counts{refused: map[Reason]int64{}},
	}
	if in.healthPaths == nil {
		in.healthPaths = healthPaths
	}
	if in.longLived == nil {
		in.longLived = longLived
	}
	if in.maxLongLived == 0 {
		in.maxLongLived = defaultMaxLongLived
	}
	in.fixed = g.Limit
	if in.fixed < 0 {
		in.fixed = unlimited
	}
	if g.Limit == 0 {
		in.adaptive = newAdaptive(g.Adaptive)
	}
	in.engine = admission.New(admission.Config{
		Limit: in.ownLimit(), Queue: g.Queue, Order: admission.Order(g.Order),
		MaxWait: int64(g.MaxWait), MaxTenants: g.MaxTenants,
	}, rand.Uint64())
	return in, nil
}

func checkFields(g *Gate) error {
	switch {
	case g.Limit != 0 && g.Adaptive != nil:
		return fmt.Errorf("shed: Gate.Limit is %d and Adaptive is set; a gate has one of them", g.Limit)
	case g.Limit >= unlimited:
		return fmt.Errorf("shed: Gate.Limit is %d; allowed is up to %d, and negative for any number", g.Limit, unlimited-1)
	case g.Order < Wine || g.Order > Milk:
		return fmt.Errorf("shed: Gate.Order is %d; allowed are Wine and Milk", g.Order)
	case g.Known != nil && g.Tenant == nil:
		return errors.New("shed: Gate.Known is set and Tenant is nil; Known is about what Tenant returns")
	case g.Weight != nil && g.Tenant == nil:
		return errors.New("shed: Gate.Weight is set and Tenant is nil; Weight is about what Tenant returns")
	}
	for _, f := range []struct{ field, value string }{
		{"DeadlineHeader", g.DeadlineHeader},
		{"AttemptHeader", g.AttemptHeader},
		{"PriorityHeader", g.PriorityHeader},
	} {
		if strings.Trim(f.value, tokenChars) != "" {
			return fmt.Errorf("shed: Gate.%s is %q; allowed are the name of a header field, empty for the usual one, and \"-\" for none", f.field, f.value)
		}
	}
	for i, p := range g.HealthPaths {
		if !strings.HasPrefix(p, "/") {
			return fmt.Errorf("shed: Gate.HealthPaths[%d] is %q; a path begins with a slash", i, p)
		}
	}
	return g.Adaptive.check()
}

// check is part of Gate.Check.
func (a *Adaptive) check() error {
	if a == nil {
		return nil
	}
	l := newAdaptive(a)
	switch {
	case a.Min < 0 || a.Max < 0 || a.Initial < 0:
		return fmt.Errorf("shed: Gate.Adaptive is {Min: %d, Max: %d, Initial: %d}; none may be negative", a.Min, a.Max, a.Initial)
	case l.Min > l.Max:
		return fmt.Errorf("shed: Gate.Adaptive.Min is %d and Max is %d; Min is at most Max", l.Min, l.Max)
	case l.Initial < l.Min || l.Initial > l.Max:
		return fmt.Errorf("shed: Gate.Adaptive.Initial is %d; allowed is from Min, %d, to Max, %d", l.Initial, l.Min, l.Max)
	}
	return nil
}

// newAdaptive is the engine of an Adaptive; nil: the zero value.
func newAdaptive(a *Adaptive) *gradient.Limit {
	l := &gradient.Limit{Min: 2 * runtime.GOMAXPROCS(0), Max: 1000, Seed: rand.Uint64()}
	if a != nil && a.Max != 0 {
		l.Max = a.Max
	}
	if l.Min = min(l.Min, l.Max); a != nil && a.Min != 0 {
		l.Min = a.Min
	}
	if l.Initial = min(max(20, l.Min), l.Max); a != nil && a.Initial != 0 {
		l.Initial = a.Initial
	}
	return l
}

// tokenChars may stand in the name of a header field (RFC 9110 section 5.6.2).
const tokenChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// fieldName is the canonical name of a field to read; empty: none.
func fieldName(set, usual string) string {
	switch set {
	case "":
		return usual
	case "-":
		return ""
	}
	return http.CanonicalHeaderKey(set)
}
