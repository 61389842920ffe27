package limiter

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// guard is a Guard that was checked and is ready for use.
type guard struct {
	store  Store
	memory *Memory // store, if it is one
	local  Memory  // decides for limits that are Local, while another store fails
	rules  []guardRule
	said   map[*Limit]*said // of limits known in advance

	maxDelay  time.Duration // negative: unbounded
	maxHeld   int           // likewise
	held      atomic.Int64
	degrade   http.Handler
	contact   string
	legacy    bool
	partition []byte
	hooks     *Hooks
}

type guardRule struct {
	Rule
	matcher matcher
	policy  string // the RateLimit-Policy of Limits, if it is always the same
}

const (
	defaultMaxDelay = 10 * time.Second
	defaultMaxHeld  = 1000
	leastSecret     = 16
)

// Check says what is wrong with the Guard: nil if nothing is, else the first
// fault, with the field, its value, and what is allowed. It changes nothing.
func (g *Guard) Check() error {
	_, err := compile(g)
	return err
}

func compile(g *Guard) (*guard, error) {
	ready := &guard{
		store: g.Store, maxDelay: g.MaxDelay, maxHeld: g.MaxHeld, degrade: g.Degrade,
		contact: g.Contact, legacy: g.Legacy, partition: g.Partition, hooks: g.Hooks,
		said: map[*Limit]*said{},
	}
	if ready.maxDelay == 0 {
		ready.maxDelay = defaultMaxDelay
	}
	if ready.maxHeld == 0 {
		ready.maxHeld = defaultMaxHeld
	}
	if n := len(g.Partition); g.Partition != nil && n < leastSecret {
		return nil, fmt.Errorf("limiter: Guard.Partition has %d bytes; a secret has at least %d, and nil is none", n, leastSecret)
	}
	if len(g.Rules) == 0 {
		return nil, errors.New("limiter: Guard.Rules is empty; a guard has at least one rule")
	}
	for i, r := range g.Rules {
		checked, err := compileRule(fmt.Sprintf("limiter: Guard.Rules[%d].", i), r)
		if err != nil {
			return nil, err
		}
		ready.rules = append(ready.rules, checked)
		ready.say(r.Limits)
		if r.DryRun { // nobody is held
			continue
		}
		err = checkQueues(fmt.Sprintf("Guard.Rules[%d].Limits", i), r.Limits, ready.maxDelay)
		for j, p := range r.Plans {
			ready.say(p.Limits)
			if err == nil {
				err = checkQueues(fmt.Sprintf("Guard.Rules[%d].Plans[%d].Limits", i, j), p.Limits, ready.maxDelay)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if err := checkStacks(g.Rules); err != nil {
		return nil, err
	}
	switch store := g.Store.(type) {
	case nil:
		ready.memory = new(Memory)
		ready.store = ready.memory
	case *Memory:
		if store == nil {
			return nil, errors.New("limiter: Guard.Store is a nil *Memory; leave it nil altogether, or set &limiter.Memory{}")
		}
		ready.memory = store
	}
	if err := checkStore(g); err != nil {
		return nil, err
	}
	return ready, nil
}

// checkStore asks a store that can tell whether it could keep the limits: later
// it would be one that fails, and limits would be open. Plans are alternatives, so
// each is asked about alone.
func checkStore(g *Guard) error {
	store, ok := g.Store.(interface{ CheckLimits(...*Limit) error })
	if !ok {
		return nil
	}
	var all []*Limit
	for _, r := range g.Rules {
		all = append(all, r.Limits...)
	}
	err := store.CheckLimits(all...)
	for _, r := range g.Rules {
		for _, p := range r.Plans {
			if err == nil {
				err = store.CheckLimits(append(all[:len(all):len(all)], p.Limits...)...)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("limiter: Guard.Store: %w", err)
	}
	return nil
}

// say prepares what is said of limits.
func (g *guard) say(limits []*Limit) {
	for _, l := range limits {
		g.said[l] = newSaid(l)
	}
}

// compileRule checks one rule; at is where it stands, for errors.
func compileRule(at string, r Rule) (guardRule, error) {
	c := guardRule{Rule: r}
	var err error
	if c.matcher, err = newMatcher(r.Pattern); err != nil {
		return c, fmt.Errorf("%sPattern is %q; allowed is a pattern of http.ServeMux: %w", at, r.Pattern, err)
	}
	switch {
	case r.Key == nil:
		return c, fmt.Errorf("%sKey is nil; a rule must say whose units a request uses, as limiter.ByAddress(nil) or limiter.Global do", at)
	case len(r.Limits) == 0 && r.Tier == nil:
		return c, fmt.Errorf("%sLimits is empty and Tier is nil; a rule has one of them", at)
	case len(r.Limits) > 0 && r.Tier != nil:
		return c, fmt.Errorf("%sLimits has %d limits and Tier is set; a rule has only one of them", at, len(r.Limits))
	case len(r.Plans) > 0 && r.Tier == nil:
		return c, fmt.Errorf("%sPlans has %d plans and Tier is nil; Plans describe what Tier returns", at, len(r.Plans))
	}
	if err := checkLimits(at+"Limits", r.Limits); err != nil {
		return c, err
	}
	for i, p := range r.Plans {
		if p.Name == "" {
			return c, fmt.Errorf("%sPlans[%d].Name is empty; a plan has the name that its customers know", at, i)
		}
		if len(p.Limits) == 0 {
			return c, fmt.Errorf("%sPlans[%d].Limits is empty; a plan has at least one limit", at, i)
		}
		if err := checkLimits(fmt.Sprintf("%sPlans[%d].Limits", at, i), p.Limits); err != nil {
			return c, err
		}
	}
	c.policy = policyField(r.Limits)
	return c, nil
}

// checkLimits checks limits that are charged together; at is where they stand.
func checkLimits(at string, limits []*Limit) error {
	for i, l := range limits {
		switch {
		case l == nil:
			return fmt.Errorf("%s[%d] is nil; a limit comes from a constructor such as limiter.TokenBucket, whose error must be looked at", at, i)
		case l.rule == nil:
			return fmt.Errorf("%s[%d] is a Limit that was not made by a constructor; use one such as limiter.TokenBucket", at, i)
		case l.OnFailure < Open || l.OnFailure > Local:
			return fmt.Errorf("%s[%d].OnFailure is %d; allowed are Open, Closed and Local", at, i, l.OnFailure)
		}
		if err := checkName(l.name); err != nil {
			return fmt.Errorf("%s[%d].Name is %q: %w", at, i, l.name, err)
		}
		for j, other := range limits[:i] {
			if l.name == other.name {
				return fmt.Errorf("%s[%d] and [%d] are both named %q; clients know limits by name, so names differ", at, j, i, l.name)
			}
		}
	}
	return nil
}

// checkQueues looks for a queue that would keep even the only request longer
// than it may be held.
func checkQueues(at string, limits []*Limit, maxDelay time.Duration) error {
	for i, l := range limits {
		if l.rule.Kind() != rule.LeakyQueue || maxDelay < 0 {
			continue
		}
		if tick := interval(1, l.Rate()); tick > maxDelay {
			return fmt.Errorf("limiter: %s[%d], %q, lets one leave every %v, and Guard.MaxDelay is %v: it would never admit anybody; MaxDelay must be %v at least, or negative", at, i, l.name, tick, maxDelay, tick)
		}
	}
	return nil
}

// checkStacks looks for rules of one pattern that have limits of one name, which
// would be told apart by nobody.
func checkStacks(rules []Rule) error {
	type place struct{ pattern, name string }
	seen := map[place]int{}
	for i, r := range rules {
		if r.DryRun { // nobody is told
			continue
		}
		for _, l := range r.Limits {
			p := place{r.Pattern, l.name}
			if j, ok := seen[p]; ok {
				return fmt.Errorf("limiter: Guard.Rules[%d].Limits and Guard.Rules[%d].Limits both have a limit named %q for the pattern %q; clients know limits by name, so names differ", j, i, l.name, r.Pattern)
			}
			seen[p] = i
		}
	}
	return nil
}
