package limiter

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProblemMembers(t *testing.T) {
	cost := int64(1)
	h := (&Guard{
		Contact: "mailto:\"ops\" <ops@example.com>\x00\xff",
		Rules: []Rule{{
			Key: Global, Limits: []*Limit{made(FixedWindow(`a "quoted\" <name>`, 10, time.Hour, ToFirst))},
			Cost: func(*http.Request) int64 { return cost },
		}},
	}).Handler(ok200)
	parse := func(w *httptest.ResponseRecorder) map[string]any {
		require.Equal(t, 429, w.Code)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		var body map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body.String())
		return body
	}
	statuses(7, h, "GET", "/")
	cost = 5
	body := parse(ask(h, "GET", "/"))
	assert.Equal(t, map[string]any{
		"type":              "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"title":             "Request cannot be satisfied as assigned quota has been exceeded",
		"status":            429.0,
		"detail":            `This request costs 5, more than is left of limit "a "quoted\" <name>" (10 per hour). Try again in 3600 seconds.`,
		"violated-policies": []any{`a "quoted\" <name>`},
		"limit":             `a "quoted\" <name>`,
		"quota":             10.0,
		"remaining":         3.0,
		"cost":              5.0,
		"retry_after":       3600.0,
		"contact":           "mailto:\"ops\" <ops@example.com>\x00\ufffd",
	}, body)

	cost = 11
	w := ask(h, "GET", "/")
	body = parse(w)
	assert.Empty(t, w.Header().Get("Retry-After"), "waiting will not help")
	assert.NotContains(t, body, "retry_after")
	assert.Equal(t, `This request costs 11, more than can ever pass limit "a "quoted\" <name>" (10 per hour). Waiting will not help; ask for at most 10 at once.`, body["detail"])
	assert.Equal(t, `"a \"quoted\\\" <name>";r=3;t=3600`, w.Header().Get("RateLimit"), "what is left is told all the same")
	cost = 3
	assert.Equal(t, 200, ask(h, "GET", "/").Code, "it was charged nothing (rwz/redis-gcra#6)")
}

// A refusal is never stored, whatever was set before it (kubestellar/console#17160).
func TestProblemIsNotStored(t *testing.T) {
	guarded := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{window("w", 1)}}}}).Handler(ok200)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Cache-Control": "public, max-age=300", "Expires": "Thu, 01 Jan 2099 00:00:00 GMT", "ETag": `"x"`, "Age": "3",
			"Last-Modified": "Thu, 01 Jan 1970 00:00:00 GMT", "Content-Encoding": "gzip", "Content-Length": "3",
			"CDN-Cache-Control": "max-age=60", "Surrogate-Control": "max-age=60", "Retry-After": "99", "X-Kept": "yes",
		} {
			w.Header().Set(name, value)
		}
		guarded.ServeHTTP(w, r)
	})
	w := ask(h, "GET", "/")
	assert.Equal(t, "public, max-age=300", w.Header().Get("Cache-Control"), "an answer keeps its own")
	w = ask(h, "GET", "/")
	assert.Equal(t, []string{"no-store"}, w.Header()["Cache-Control"])
	assert.Equal(t, []string{"60"}, w.Header()["Retry-After"])
	assert.Equal(t, "yes", w.Header().Get("X-Kept"))
	never := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{window("w", 1)}, Cost: func(*http.Request) int64 { return 2 }}}}).Handler(ok200)
	guarded = never
	assert.NotContains(t, ask(h, "GET", "/").Header(), "Retry-After", "of a refusal for ever")
	for _, name := range misleading {
		assert.Equal(t, http.CanonicalHeaderKey(name), name)
		assert.NotContains(t, w.Header(), name)
	}
}

func TestProblemHead(t *testing.T) {
	h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{window("w", 1)}}}}).Handler(ok200)
	ask(h, "GET", "/")
	w := ask(h, "HEAD", "/")
	assert.Equal(t, 429, w.Code)
	assert.Empty(t, w.Body.Bytes())
	assert.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
}

func FuzzAppendJSON(f *testing.F) {
	f.Add("a\"\\\x00\xff<\u2028\x7f")
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		require.NoError(t, json.Unmarshal(appendJSON(nil, s), &got))
		want, err := json.Marshal(s)
		require.NoError(t, err)
		var normal string
		require.NoError(t, json.Unmarshal(want, &normal))
		assert.Equal(t, normal, got)
	})
}
