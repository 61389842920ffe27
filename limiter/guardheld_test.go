package limiter

import (
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// number is what a field says after a name, such as ";t=".
func number(t *testing.T, w *httptest.ResponseRecorder, field, after string) int64 {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(after) + `(\d+)`).FindStringSubmatch(w.Header().Get(field))
	require.NotNil(t, m, "%s: %v", field, w.Header())
	n, err := strconv.ParseInt(m[1], 10, 64)
	require.NoError(t, err)
	return n
}

// After a hold, t and X-RateLimit-Reset are as of when the answer leaves: who
// obeys is admitted, and who comes a second earlier is not.
func TestHoldTellsWhenThereIsMore(t *testing.T) {
	for _, l := range []func() *Limit{
		func() *Limit { return made(SlidingLog("l", 1, 20*time.Second)) },
		func() *Limit { return made(SlidingBuckets("l", 1, 20*time.Second, 5)) },
		func() *Limit { return made(SlidingCounter("l", 1, 20*time.Second)) },
		func() *Limit { return made(TokenBucket("l", Per(1, 20*time.Second), 1)) },
		func() *Limit { return made(FixedWindow("l", 1, 20*time.Second, ToFirst)) },
	} {
		for _, early := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				h := (&Guard{Legacy: true, Rules: []Rule{{Key: Global, Limits: []*Limit{l(), made(LeakyQueue("q", Per(1, 8*time.Second), 10))}}}}).Handler(ok200)
				begin := time.Now()
				w := ask(h, "GET", "/")
				require.Equal(t, 200, w.Code)
				require.Equal(t, 8*time.Second, time.Since(begin))
				wait := number(t, w, fieldState, `"l";r=0;t=`)
				assert.GreaterOrEqual(t, wait, int64(12), l().Kind())
				assert.Equal(t, time.Now().Unix()+wait, number(t, w, legacyReset, ""), l().Kind())
				if early {
					wait--
				}
				time.Sleep(time.Duration(wait) * time.Second)
				assert.Equal(t, map[bool]int{false: 200, true: 429}[early], ask(h, "GET", "/").Code, l().Kind())
			})
		}
	}
}

// What has come back while a request was held is there when it leaves.
func TestHoldTellsWhatCameBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := made(SlidingLog("l", 2, 20*time.Second))
		h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{log, made(LeakyQueue("q", Per(1, 8*time.Second), 10))}}}}).Handler(ok200)
		ask(h, "GET", "/")
		time.Sleep(8 * time.Second)
		w := ask(h, "GET", "/") // comes at 16 s and leaves at 24 s
		assert.Contains(t, w.Header().Get(fieldState), `"l";r=0;t=0`)
	})
}
