package limiter

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGuardCheck(t *testing.T) {
	w := window("w", 5)
	rule := func(change func(*Rule)) *Guard {
		r := Rule{Pattern: "/x", Key: Global, Limits: []*Limit{w}}
		change(&r)
		return &Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{window("first", 1)}}, r}}
	}
	tier := func(*http.Request) []*Limit { return nil }
	slow := made(LeakyQueue("q", Per(1, 11*time.Second), 5))
	broken := *w
	broken.OnFailure = 7
	for want, g := range map[string]*Guard{
		"limiter: Guard.Rules is empty; a guard has at least one rule":                                {},
		"limiter: Guard.Partition has 3 bytes; a secret has at least 16, and nil is none":             {Partition: []byte("abc"), Rules: []Rule{{Key: Global, Limits: []*Limit{w}}}},
		"limiter: Guard.Store is a nil *Memory; leave it nil":                                         {Store: (*Memory)(nil), Rules: []Rule{{Key: Global, Limits: []*Limit{w}}}},
		"limiter: Guard.Rules[1].Key is nil; a rule must say whose units":                             rule(func(r *Rule) { r.Key = nil }),
		`limiter: Guard.Rules[1].Pattern is "login"; allowed is a pattern of http.ServeMux`:           rule(func(r *Rule) { r.Pattern = "login" }),
		`Guard.Rules[1].Pattern is "post /login"; allowed is a pattern of http.ServeMux: me`:          rule(func(r *Rule) { r.Pattern = "post /login" }),
		"limiter: Guard.Rules[1].Limits is empty and Tier is nil":                                     rule(func(r *Rule) { r.Limits = nil }),
		"limiter: Guard.Rules[1].Limits has 1 limits and Tier is set":                                 rule(func(r *Rule) { r.Tier = tier }),
		"limiter: Guard.Rules[1].Limits[1] is nil; a limit comes from a constructor":                  rule(func(r *Rule) { r.Limits = []*Limit{w, nil} }),
		"limiter: Guard.Rules[1].Limits[0] is a Limit that was not made by a constructor":             rule(func(r *Rule) { r.Limits = []*Limit{{}} }),
		"limiter: Guard.Rules[1].Limits[0].OnFailure is 7; allowed are Open":                          rule(func(r *Rule) { r.Limits = []*Limit{&broken} }),
		`limiter: Guard.Rules[1].Limits[0] and [1] are both named "w"`:                                rule(func(r *Rule) { r.Limits = []*Limit{w, window("w", 9)} }),
		`limiter: Guard.Rules[1].Limits[0].Name is "né"`:                                              rule(func(r *Rule) { r.Limits = []*Limit{{name: "né", rule: w.rule}} }),
		"limiter: Guard.Rules[1].Plans has 1 plans and Tier is nil":                                   rule(func(r *Rule) { r.Plans = []Plan{{"free", r.Limits}} }),
		"limiter: Guard.Rules[1].Plans[0].Name is empty":                                              rule(func(r *Rule) { r.Plans, r.Tier, r.Limits = []Plan{{"", r.Limits}}, tier, nil }),
		"limiter: Guard.Rules[1].Plans[0].Limits is empty":                                            rule(func(r *Rule) { r.Plans, r.Tier, r.Limits = []Plan{{"free", nil}}, tier, nil }),
		"limiter: Guard.Rules[1].Plans[0].Limits[0] is nil":                                           rule(func(r *Rule) { r.Plans, r.Tier, r.Limits = []Plan{{"free", []*Limit{nil}}}, tier, nil }),
		`limiter: Guard.Rules[1].Limits[1], "q", lets one leave every 11s, and Guard.MaxDelay is 10s`: rule(func(r *Rule) { r.Limits = []*Limit{w, slow} }),
		`limiter: Guard.Rules[1].Plans[0].Limits[0], "q", lets one leave every 11s`:                   rule(func(r *Rule) { r.Plans, r.Tier, r.Limits = []Plan{{"free", []*Limit{slow}}}, tier, nil }),
		`Guard.Rules[1].Limits and Guard.Rules[2].Limits both have a limit named "w" for the pattern "/x"`: func() *Guard {
			g := rule(func(*Rule) {})
			g.Rules = append(g.Rules, Rule{Pattern: "/x", Key: ByAddress(nil), Limits: []*Limit{window("w", 3)}})
			return g
		}(),
	} {
		err := g.Check()
		require.Error(t, err, want)
		assert.Contains(t, err.Error(), want)
		assert.PanicsWithError(t, err.Error(), func() { g.Handler(http.NotFoundHandler()) })
		assert.PanicsWithError(t, err.Error(), func() { g.Policies() })
	}
}

// A host that no request has would be a limit for nobody.
func TestGuardCheckHosts(t *testing.T) {
	const port = "hosts are written without a port, for http.ServeMux takes it from the request's host, so that no request would match: "
	for pattern, want := range map[string]string{
		"POST API.x.test/login":      "hosts are written in lower case",
		"POST api.x.test:8080/login": port + "api.x.test",
		"api.x.test:443/":            port + "api.x.test",
		"api.x.test:/":               port + "api.x.test",
		"GET [::1]:8080/":            port + "::1",
		"127.0.0.1:80/{all...}":      port + "127.0.0.1",
	} {
		g := &Guard{Rules: []Rule{{Pattern: pattern, Key: Global, Limits: []*Limit{window("w", 5)}}}}
		assert.EqualError(t, g.Check(), `limiter: Guard.Rules[0].Pattern is "`+pattern+`"; allowed is a pattern of http.ServeMux: `+want)
	}
}

func TestGuardCheckFine(t *testing.T) {
	w := window("w", 5)
	g := &Guard{
		MaxDelay: -1, MaxHeld: -1, Partition: make([]byte, 16),
		Rules: []Rule{
			{Key: Global, Limits: []*Limit{w}},
			{Pattern: "/x", Key: Global, Limits: []*Limit{w}},                            // another pattern
			{Pattern: "/x", Key: Global, Limits: []*Limit{window("w", 9)}, DryRun: true}, // on trial
			{Pattern: "POST api.x.test/login", Key: Global, Limits: []*Limit{w}},
			{Pattern: "CONNECT api.x.test:8080/chat", Key: Global, Limits: []*Limit{w}}, // of CONNECT the port stays
			{Key: Global, Tier: func(*http.Request) []*Limit { return []*Limit{w} }, Plans: []Plan{{"a", []*Limit{w}}, {"b", []*Limit{w}}}},
			{Key: Global, Limits: []*Limit{made(TokenBucket(`a "quoted\" name`, Per(1, time.Second), 1))}},
		},
	}
	require.NoError(t, g.Check())
	require.NotNil(t, g.Handler(http.NotFoundHandler()))
	assert.Panics(t, func() { g.Handler(nil) })
}
