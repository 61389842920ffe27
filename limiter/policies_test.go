package limiter

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func shopGuard() *Guard {
	reads := made(TokenBucket("reads", Per(100, time.Minute), 20))
	logins := made(FixedWindow("logins", 5, time.Minute, ToFirst))
	exports := made(SlidingCounter("exports", 100, time.Hour))
	free, freeDay := made(TokenBucket("free", Per(5, time.Second), 10)), made(Quota("free-day", 1000, Day, nil))
	pro, proMonth := made(TokenBucket("pro", Per(50, time.Second), 100)), made(Quota("pro-month", 1_000_000, Month, time.FixedZone("CET", 3600)))
	return &Guard{
		Title: "Limits of the shop API", URL: "https://api.shop.example", Contact: "https://shop.example/support",
		Rules: []Rule{
			{Title: "Reading", Pattern: "GET /items/", Key: ByAddress(nil), Limits: []*Limit{reads}},
			{Title: "Signing in", Pattern: "POST /login", Key: ByAddress(nil), Limits: []*Limit{logins}},
			{Pattern: "GET /export/{kind}", Key: Global, Limits: []*Limit{exports}, Cost: func(*http.Request) int64 { return 25 }},
			{
				Title: "Each account", Key: byHeader("User"), Tier: func(*http.Request) []*Limit { return []*Limit{free} },
				Plans: []Plan{{"Free", []*Limit{free, freeDay}}, {"Pro", []*Limit{pro, proMonth}}},
			},
			{Pattern: "/secret", Key: Global, Limits: []*Limit{window("on-trial", 1)}, DryRun: true},
		},
	}
}

func TestPoliciesJSON(t *testing.T) {
	w := ask(shopGuard().Policies(), "GET", "/limits")
	assert.Equal(t, 200, w.Code)
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	assert.Equal(t, "Accept", w.Header().Get("Vary"))
	assert.JSONEq(t, `{
		"title": "Limits of the shop API",
		"contact": "https://shop.example/support",
		"rules": [
			{"title": "Reading", "pattern": "GET /items/", "weighed": false, "by_plan": false, "limits": [
				{"name": "reads", "rule": "token_bucket", "summary": "100 per minute, up to 20 at once", "quota": 20, "rate": {"count": 100, "seconds": 60}}]},
			{"title": "Signing in", "pattern": "POST /login", "weighed": false, "by_plan": false, "limits": [
				{"name": "logins", "rule": "fixed_window", "summary": "5 per minute", "quota": 5, "window_seconds": 60}]},
			{"pattern": "GET /export/{kind}", "weighed": true, "by_plan": false, "limits": [
				{"name": "exports", "rule": "sliding_counter", "summary": "about 100 in any hour", "quota": 100, "window_seconds": 3600}]},
			{"title": "Each account", "pattern": "", "weighed": false, "by_plan": true, "plans": [
				{"name": "Free", "limits": [
					{"name": "free", "rule": "token_bucket", "summary": "5 per second, up to 10 at once", "quota": 10, "rate": {"count": 5, "seconds": 1}},
					{"name": "free-day", "rule": "calendar", "summary": "1,000 per day (UTC)", "quota": 1000, "period": "day", "zone": "UTC"}]},
				{"name": "Pro", "limits": [
					{"name": "pro", "rule": "token_bucket", "summary": "50 per second, up to 100 at once", "quota": 100, "rate": {"count": 50, "seconds": 1}},
					{"name": "pro-month", "rule": "calendar", "summary": "1,000,000 per month (CET)", "quota": 1000000, "period": "month", "zone": "CET"}]}]}
		]}`, w.Body.String())
}

func TestPoliciesPage(t *testing.T) {
	w := ask(shopGuard().Policies(), "GET", "/limits", "Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	page := w.Body.String()
	for _, want := range []string{
		"<title>Limits of the shop API</title>", "GET /export/{kind}", "100 per minute, up to 20 at once",
		"polite.NewTransport(nil)", "https://api.shop.example/items/", "curl -i --retry 5",
		`<a href="https://shop.example/support">shop.example/support</a>`, "Retry-After", "prefers-color-scheme:dark",
	} {
		assert.Contains(t, page, want)
	}
	for _, not := range []string{"on-trial", "/secret", "<script", "<link", "<img", "@import", "url("} {
		assert.NotContains(t, page, not)
	}
	if path := os.Getenv("POLICIES_PAGE"); path != "" { // to look at it
		require.NoError(t, os.WriteFile(path, w.Body.Bytes(), 0o600))
	}
}

func TestPoliciesEscapes(t *testing.T) {
	const evil = `"><script>alert(1)</script>`
	g := &Guard{
		Title: evil, URL: evil, Contact: "javascript:alert(1)//" + evil,
		Rules: []Rule{{
			Title: evil, Pattern: "/a\"<b>'", Key: Global,
			Tier:  func(*http.Request) []*Limit { return nil },
			Plans: []Plan{{evil, []*Limit{window(evil, 1)}}},
		}},
	}
	page := ask(g.Policies(), "GET", "/", "Accept", "text/html").Body.String()
	assert.NotContains(t, page, "<script")
	assert.NotContains(t, page, "<b>")
	assert.NotContains(t, page, `href="javascript`)
	var parsed toldPolicies
	require.NoError(t, json.Unmarshal(ask(g.Policies(), "GET", "/").Body.Bytes(), &parsed))
	assert.Equal(t, evil, parsed.Title)

	mail := (&Guard{Contact: "ops@example.com", Rules: g.Rules}).Policies()
	assert.Contains(t, ask(mail, "GET", "/", "Accept", "text/html").Body.String(), `<a href="mailto:ops@example.com">ops@example.com</a>`)
}

func TestPoliciesNegotiates(t *testing.T) {
	for accept, html := range map[string]bool{
		"":                                     false,
		"*/*":                                  false,
		"application/json":                     false,
		"text/html":                            true,
		"text/html, */*":                       true,
		"TEXT/HTML;q=0.5, application/json":    false,
		"application/json;q=0.4, text/*;q=0.5": true,
		"text/html;q=0, */*":                   false,
		"text/html;q=nonsense":                 false,
		"text/html, application/json":          false,
		"image/png":                            false,
		"application/json;q=0.1, text/html;q=0.11": true,
	} {
		assert.Equal(t, html, prefersHTML([]string{accept}), accept)
	}
	assert.True(t, prefersHTML([]string{"application/json;q=0.1", "text/html"}), "two lines")
}

func TestPoliciesMethods(t *testing.T) {
	h := shopGuard().Policies()
	w := ask(h, "POST", "/")
	assert.Equal(t, 405, w.Code)
	assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	head, get := ask(h, "HEAD", "/"), ask(h, "GET", "/")
	assert.Empty(t, head.Body.Bytes())
	assert.Equal(t, get.Header(), head.Header())
	server := httptest.NewServer(h)
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	resp.Body.Close()
	assert.EqualValues(t, get.Body.Len(), resp.ContentLength)
}

func TestWords(t *testing.T) {
	for want, l := range map[string]*Limit{
		"10 per 90 seconds":                 made(FixedWindow("x", 10, 90*time.Second, ToClock)),
		"10 per 250ms":                      made(FixedWindow("x", 10, 250*time.Millisecond, ToClock)),
		"10 in any 2 days":                  made(SlidingLog("x", 10, 48*time.Hour)),
		"10 in any hour":                    made(SlidingBuckets("x", 10, time.Hour, 60)),
		"7 per 11 minutes, up to 3 at once": made(LeakyMeter("x", Per(7, 11*time.Minute), 3)),
		"2 per second, one after the other, up to 5 waiting": made(LeakyQueue("x", Per(2, time.Second), 5)),
	} {
		assert.Equal(t, want, l.words())
	}
}
