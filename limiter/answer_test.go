package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/headerparse"
)

// oneOfEach has one limit of each rule.
func oneOfEach() []*Limit {
	return []*Limit{
		made(FixedWindow("fixed", 5, 10*time.Second, ToClock)),
		made(FixedWindow("first", 5, 10*time.Second, ToFirst)),
		made(FixedWindow("per-key", 5, 10*time.Second, ToClockPerKey)),
		made(SlidingLog("log", 5, 10*time.Second)),
		made(SlidingCounter("counter", 5, 10*time.Second)),
		made(SlidingBuckets("buckets", 5, 10*time.Second, 5)),
		made(TokenBucket("bucket", Per(3, 7*time.Second), 5)),
		made(LeakyMeter("meter", Per(3, 7*time.Second), 5)),
		made(Quota("day", 5, Day, nil)),
	}
}

func TestAnswerGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&Guard{Contact: "https://example.com/help", Rules: []Rule{{Key: Global, Limits: []*Limit{
			made(TokenBucket("burst", Per(5, time.Second), 10)),
			made(FixedWindow("hour", 12, time.Hour, ToClock)),
		}}}}).Handler(ok200)
		time.Sleep(10 * time.Minute) // into the hour

		w := ask(h, "GET", "/")
		assert.Equal(t, http.Header{
			"Content-Type":     {"text/plain; charset=utf-8"},
			"Ratelimit":        {`"burst";r=9;t=1, "hour";r=11;t=3000`},
			"Ratelimit-Policy": {`"burst";q=10;w=2, "hour";q=12;w=3600`},
		}, w.Header())

		statuses(9, h, "GET", "/")
		w = ask(h, "GET", "/")
		assert.Equal(t, 429, w.Code)
		assert.Equal(t, http.Header{
			"Content-Type":     {"application/problem+json"},
			"Cache-Control":    {"no-store"},
			"Retry-After":      {"1"},
			"Ratelimit":        {`"burst";r=0;t=1, "hour";r=2`}, // no t after Retry-After
			"Ratelimit-Policy": {`"burst";q=10;w=2, "hour";q=12;w=3600`},
		}, w.Header())
		assert.Equal(t, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",`+
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,`+
			`"detail":"Nothing is left of limit \"burst\" (5 per second, up to 10 at once). Try again in 1 second.",`+
			`"violated-policies":["burst"],"limit":"burst","quota":10,"remaining":0,"cost":1,"retry_after":1,`+
			`"contact":"https://example.com/help"}`, w.Body.String())

		time.Sleep(time.Second)
		assert.Equal(t, []int{200, 200}, statuses(2, h, "GET", "/"))
		w = ask(h, "GET", "/")
		assert.Equal(t, `"burst";r=3;t=1, "hour";r=0;t=2999`, w.Header().Get("RateLimit"))
		assert.Equal(t, "2999", w.Header().Get("Retry-After"))
		assert.Contains(t, w.Body.String(), `"violated-policies":["hour"]`)
	})
}

// Whoever waits for Retry-After is admitted, whatever the rule, and a t beside
// it is no later. Our own client reads the same numbers.
func TestAnswerIsTrue(t *testing.T) {
	for _, l := range oneOfEach() {
		t.Run(l.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(1, 2))
				var cost int64
				h := (&Guard{Rules: []Rule{{
					Key: Global, Limits: []*Limit{l, made(FixedWindow("wide", 1000, 36*time.Hour, ToFirst))},
					Cost: func(*http.Request) int64 { return cost },
				}}}).Handler(ok200)
				refused := 0
				for range rounds(200) {
					time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Second))))
					cost = 1 + rnd.Int64N(5)
					w := ask(h, "GET", "/")
					s := headerparse.Parse(w.Code, w.Header(), time.Now())
					require.Len(t, s.Limits, 2)
					own := s.Limits[0]
					require.Equal(t, l.Name(), own.Name)
					require.EqualValues(t, l.Quota(), own.Quota)
					if w.Code == 200 {
						if own.Remaining > 0 {
							continue
						}
						require.True(t, s.Told, "a spent limit tells a wait")
						require.Equal(t, own.Reset, s.Wait)
						time.Sleep(s.Wait)
						cost = 1
						require.Equal(t, 200, ask(h, "GET", "/").Code, "%v after t", s.Wait)
						continue
					}
					refused++
					require.True(t, s.Told)
					require.Equal(t, "Retry-After", s.Source)
					require.GreaterOrEqual(t, s.Wait, time.Second)
					for _, told := range s.Limits {
						require.LessOrEqual(t, told.Reset, s.Wait)
					}
					if s.Wait > time.Second {
						time.Sleep(s.Wait - time.Second)
						assert.Equal(t, 429, ask(h, "GET", "/").Code, "a second earlier it is refused")
						time.Sleep(time.Second)
					} else {
						time.Sleep(s.Wait)
					}
					require.Equal(t, 200, ask(h, "GET", "/").Code, "after %v, cost %d", s.Wait, cost)
				}
				assert.Greater(t, refused, rounds(200)/10)
			})
		})
	}
}

// t of a bucket is when one more unit is there, not when all are.
func TestAnswerUntilMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			limit *Limit
			want  []string
		}{
			{made(TokenBucket("b", Per(1, 10*time.Second), 3)), []string{"r=2;t=10", "r=1;t=10", "r=0;t=10"}},
			{made(LeakyMeter("b", Per(1, 10*time.Second), 3)), []string{"r=2;t=10", "r=1;t=10", "r=0;t=10"}},
			{made(TokenBucket("b", Per(3, 7*time.Second), 3)), []string{"r=2;t=3", "r=1;t=3", "r=0;t=3"}},
			{made(FixedWindow("b", 3, 10*time.Second, ToFirst)), []string{"r=2;t=10", "r=1;t=10", "r=0;t=10"}},
			{made(SlidingLog("b", 3, 10*time.Second)), []string{"r=2;t=10", "r=1;t=9", "r=0;t=8"}},
			{made(SlidingCounter("b", 3, 10*time.Second)), []string{"r=2;t=11", "r=1;t=10", "r=0;t=9"}},
			{made(SlidingBuckets("b", 3, 10*time.Second, 10)), []string{"r=2;t=11", "r=1;t=10", "r=0;t=9"}},
		} {
			h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{test.limit}}}}).Handler(ok200)
			time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(10 * time.Second)))
			for i, want := range test.want {
				if i > 0 && test.limit.Rate().Count == 0 && test.limit.Align() == ToClock {
					time.Sleep(time.Second)
				}
				assert.Equal(t, `"b";`+want, ask(h, "GET", "/").Header().Get("RateLimit"), test.limit.Kind())
			}
		}
	})
}

func TestAnswerPolicy(t *testing.T) {
	for want, l := range map[string]*Limit{
		`"x";q=10;w=60`:               made(FixedWindow("x", 10, time.Minute, ToClock)),
		`"x";q=10;w=3`:                made(FixedWindow("x", 10, 2500*time.Millisecond, ToClock)), // rounded up
		`"x";q=11`:                    made(FixedWindow("x", 11, 250*time.Millisecond, ToClock)),
		`"x";q=10;w=2`:                made(TokenBucket("x", Per(5, time.Second), 10)),
		`"x";q=3;w=283`:               made(TokenBucket("x", Per(7, 11*time.Minute), 3)),
		`"x";q=12`:                    made(Quota("x", 12, Month, nil)),
		`"say \"hi\" \\";q=1;w=1`:     made(FixedWindow(`say "hi" \`, 1, time.Second, ToClock)),
		`"big";q=999999999999999;w=1`: made(FixedWindow("big", 4_000_000_000_000_000, time.Second, ToClock)),
	} {
		assert.Equal(t, want, policyField([]*Limit{l}))
	}
}

// Guards in one another, and rules of several patterns, each add their items.
func TestAnswerAppends(t *testing.T) {
	outer := &Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{window("outer", 10)}}}}
	inner := &Guard{Rules: []Rule{
		{Key: Global, Limits: []*Limit{window("a", 3)}},
		{Pattern: "/", Key: ByAddress(nil), Limits: []*Limit{window("b", 2)}},
		{Pattern: "GET /", Key: Global, Limits: []*Limit{window("free", 2)}, Cost: func(*http.Request) int64 { return 0 }},
	}}
	h := outer.Handler(inner.Handler(ok200))
	w := ask(h, "GET", "/")
	assert.Equal(t, []string{`"outer";r=9;t=60`, `"a";r=2;t=60, "b";r=1;t=60`}, w.Header()["Ratelimit"])
	assert.Equal(t, []string{`"outer";q=10;w=60`, `"a";q=3;w=60, "b";q=2;w=60`}, w.Header()["Ratelimit-Policy"])
	assert.Len(t, headerparse.Parse(200, w.Header(), time.Now()).Limits, 3)

	statuses(1, h, "GET", "/")
	w = ask(h, "GET", "/")
	assert.Equal(t, 429, w.Code)
	assert.Equal(t, []string{`"outer";r=7;t=60`, `"a";r=1;t=60, "b";r=0;t=60`}, w.Header()["Ratelimit"])

	// Nobody who changes the fields of one answer changes those of another.
	var first []string
	h = outer.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if first == nil {
			first = w.Header()["Ratelimit-Policy"]
		}
		w.Header()["Ratelimit-Policy"][0] = "changed"
		w.Header().Add("RateLimit", "added")
	}))
	ask(h, "GET", "/")
	seen := httptest.NewRecorder()
	(&Guard{Rules: outer.Rules}).Handler(ok200).ServeHTTP(seen, httptest.NewRequest("GET", "/", nil))
	assert.Equal(t, `"outer";q=10;w=60`, seen.Header().Get("RateLimit-Policy"))
}

// The same limit and key in two rules are summed, and one item.
func TestAnswerSameLimitTwice(t *testing.T) {
	l := window("shared", 10)
	h := (&Guard{Rules: []Rule{
		{Key: Global, Limits: []*Limit{l}},
		{Pattern: "/export", Key: Global, Limits: []*Limit{l}, Cost: func(*http.Request) int64 { return 4 }},
		{Pattern: "/export", Key: ByAddress(nil), Limits: []*Limit{window("own", 10)}},
	}}).Handler(ok200)
	w := ask(h, "GET", "/export")
	assert.Equal(t, `"shared";r=5;t=60, "own";r=9;t=60`, w.Header().Get("RateLimit"))
	assert.Equal(t, `"shared";q=10;w=60, "own";q=10;w=60`, w.Header().Get("RateLimit-Policy"))
	ask(h, "GET", "/export")
	w = ask(h, "GET", "/export")
	assert.Contains(t, w.Body.String(), `"violated-policies":["shared"]`)
}

func TestAnswerPartition(t *testing.T) {
	secret := []byte("0123456789abcdef")
	guard := func(secret []byte) http.Handler {
		return (&Guard{Partition: secret, Rules: []Rule{{Key: byHeader("User"), Limits: []*Limit{window("w", 9)}}}}).Handler(ok200)
	}
	pk := func(h http.Handler, user string) string {
		w := ask(h, "GET", "/", "User", user)
		state, policy := w.Header().Get("RateLimit"), w.Header().Get("RateLimit-Policy")
		_, a, ok := strings.Cut(state, ";pk=")
		require.True(t, ok, state)
		_, b, ok := strings.Cut(policy, ";pk=")
		require.True(t, ok, policy)
		require.Equal(t, a, b)
		require.Len(t, headerparse.Parse(200, w.Header(), time.Now()).Limits, 1)
		require.EqualValues(t, 9, headerparse.Parse(200, w.Header(), time.Now()).Limits[0].Quota)
		return a
	}
	h := guard(secret)
	ann := pk(h, "ann")
	assert.Regexp(t, `^:[A-Za-z0-9+/]{16}:$`, ann)
	assert.Equal(t, ann, pk(h, "ann"))
	assert.Equal(t, ann, pk(guard(secret), "ann"), "in all processes")
	assert.NotEqual(t, ann, pk(h, "ben"))
	assert.NotEqual(t, ann, pk(guard([]byte("another secret..")), "ann"))
	assert.NotContains(t, ann, "ann")
}

func TestAnswerLegacy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &Guard{Legacy: true, Rules: []Rule{{Key: Global, Limits: []*Limit{window("many", 100), window("few", 5)}}}}
		h := (&Guard{Legacy: true, Rules: []Rule{{Key: Global, Limits: []*Limit{window("outer", 50)}}}}).Handler(inner.Handler(ok200))
		time.Sleep(400 * time.Millisecond)
		start := time.Now()
		reset := strconv.FormatInt(start.Add(time.Minute).Unix()+1, 10) // 0.4 s rounded up
		for i := range 5 {
			w := ask(h, "GET", "/")
			assert.Equal(t, "5", w.Header().Get("X-RateLimit-Limit"))
			assert.Equal(t, strconv.Itoa(4-i), w.Header().Get("X-RateLimit-Remaining"))
			assert.Equal(t, reset, w.Header().Get("X-RateLimit-Reset"), "it does not wobble")
			time.Sleep(1111 * time.Millisecond)
		}
		w := ask(h, "GET", "/")
		assert.Equal(t, 429, w.Code)
		assert.Equal(t, "0", w.Header().Get("X-RateLimit-Remaining"))
		assert.Equal(t, reset, w.Header().Get("X-RateLimit-Reset"))
		at, err := strconv.ParseInt(reset, 10, 64)
		require.NoError(t, err)
		time.Sleep(time.Until(time.Unix(at, 0)))
		assert.Equal(t, 200, ask(h, "GET", "/").Code)

		// An outer one with less left stands.
		first := (&Guard{Legacy: true, Rules: []Rule{{Key: Global, Limits: []*Limit{window("x", 2)}}}}).
			Handler((&Guard{Legacy: true, Rules: []Rule{{Key: Global, Limits: []*Limit{window("y", 9)}}}}).Handler(ok200))
		assert.Equal(t, "1", ask(first, "GET", "/").Header().Get("X-RateLimit-Remaining"))
	})
}

// A window that ends with a second does so in all answers, although they are
// computed a little after their decisions.
func TestAnswerLegacyAfterTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := made(FixedWindow("w", 5, time.Minute, ToClock))
		b := &bill{charges: []Charge{l.Charge("k", 1)}, owners: []int32{0}}
		g := &guard{store: &Memory{}}
		d := b.take(g, context.Background())
		want := strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10)
		time.Sleep(50 * time.Microsecond)
		h := http.Header{}
		b.setLegacy(g, h, &d, 0)
		assert.Equal(t, want, h.Get("X-RateLimit-Reset"))
	})
}

func TestInterval(t *testing.T) {
	for range 1000 {
		n, r := 1+rand.Int64N(1000), Rate{1 + rand.Int64N(1000), time.Duration(1 + rand.Int64N(int64(time.Minute)))}
		assert.EqualValues(t, n*int64(r.Per)/r.Count, interval(n, r))
	}
	assert.Zero(t, interval(1<<62, Rate{1, 1 << 62}), "more than there can be")
	assert.EqualValues(t, 1<<61, interval(1<<62, Rate{1 << 40, 1 << 39}))
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		-1: 0, 0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 1<<63 - 1: 9223372037,
	} {
		assert.Equal(t, want, seconds(d), fmt.Sprint(d))
	}
}
