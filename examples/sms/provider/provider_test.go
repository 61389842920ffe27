package provider_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/examples/sms/provider"
)

const dropped = 0 // the connection was closed in place of an answer

// post hands a request to the provider.
func post(p *provider.Provider, key, body string) (w *httptest.ResponseRecorder) {
	w = httptest.NewRecorder()
	defer func() {
		if recover() == http.ErrAbortHandler {
			w.Code = dropped
		}
	}()
	r := httptest.NewRequest(http.MethodPost, "/messages", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	p.ServeHTTP(w, r)
	return w
}

func message(id, from, text string) string {
	return fmt.Sprintf(`{"id":%q,"from":%q,"to":"+447700900001","text":%q}`, id, from, text)
}

func open(t *testing.T, dir string, seed uint64) *provider.Provider {
	p, err := provider.Open(dir, seed)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func TestRefusalNamesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p := open(t, dir, 1)
		var refused *httptest.ResponseRecorder
		for _, sender := range []string{"a", "a", "a"} {
			refused = post(p, "", message("m", sender, "Hi"))
		}
		assert.Equal(t, http.StatusTooManyRequests, refused.Code)
		assert.Equal(t, "1", refused.Header().Get("Retry-After"))
		assert.Equal(t, `"sender";r=0;t=1`, refused.Header().Get("RateLimit"))
		assert.Equal(t, `"account";q=20;w=2, "sender";q=2;w=2`, refused.Header().Get("RateLimit-Policy"))

		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() { post(p, "", message("m", fmt.Sprint("s", i), "Hi")) })
		}
		synctest.Wait()
		refused = post(p, "", message("m", "t", "Hi"))
		wg.Wait()
		assert.Equal(t, http.StatusTooManyRequests, refused.Code)
		assert.Equal(t, `"account";r=0;t=1`, refused.Header().Get("RateLimit"))

		attempts, err := provider.Attempts(dir)
		require.NoError(t, err)
		by := map[string]int{}
		for _, a := range attempts {
			by[a.Limit]++
		}
		assert.Equal(t, 1, by["sender"])
		assert.GreaterOrEqual(t, by["account"], 11)
		assert.Equal(t, 34, len(attempts), "every attempt is counted")
	})
}

func TestEnoughFailsAndIsDropped(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			p := open(t, dir, seed)
			said := map[int]int{}
			for i := range 120 {
				said[post(p, "", message(fmt.Sprint(i), "a", "Hi")).Code]++
				time.Sleep(time.Second)
			}
			assert.GreaterOrEqual(t, said[http.StatusServiceUnavailable], 6, "of 120, 5 %%")
			assert.GreaterOrEqual(t, said[dropped], 6, "of 120, 5 %%")
			assert.Equal(t, 120, said[200]+said[503]+said[dropped])

			ledger, err := provider.Ledger(dir)
			require.NoError(t, err)
			assert.Len(t, ledger, said[200]+said[dropped], "503 delivers nothing, a dropped answer does")
		})
	}
}

func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p := open(t, dir, 1)
		try := func(key, body string) (status int, replayed, answer string) {
			w := post(p, key, body)
			for w.Code == http.StatusServiceUnavailable { // nothing happened
				time.Sleep(10 * time.Second)
				w = post(p, key, body)
			}
			return w.Code, w.Header().Get("Idempotent-Replayed"), strings.TrimSpace(w.Body.String())
		}
		one := message("m1", "a", strings.Repeat("x", 161))
		first, _, answer := try("k", one)
		if first == dropped {
			answer = `{"id":"m1","segments":2}`
		}
		assert.Equal(t, `{"id":"m1","segments":2}`, answer)
		check := func() {
			for range 3 {
				time.Sleep(10 * time.Second)
				status, replayed, again := try("k", one)
				assert.Equal(t, 200, status)
				assert.Equal(t, "true", replayed)
				assert.Equal(t, answer, again)
			}
			time.Sleep(10 * time.Second)
			status, _, _ := try(`"k"`, message("m2", "a", "Hi"))
			assert.Equal(t, http.StatusUnprocessableEntity, status, "a quoted key is the same key")
			ledger, err := provider.Ledger(dir)
			require.NoError(t, err)
			require.Len(t, ledger, 1)
			assert.Equal(t, "m1", ledger[0].ID)
			assert.EqualValues(t, 2, ledger[0].Segments)
		}
		check()
		p.Close()
		p = open(t, dir, 1) // started again, it knows what it did
		check()
	})
}

func TestKeyOfAnAttemptUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, t.TempDir(), 1)
		var first *httptest.ResponseRecorder
		var wg sync.WaitGroup
		wg.Go(func() { first = post(p, "k", message("m1", "a", "Hi")) })
		synctest.Wait()
		second := post(p, "k", message("m1", "a", "Hi"))
		wg.Wait()
		assert.Equal(t, http.StatusConflict, second.Code)
		assert.Equal(t, "1", second.Header().Get("Retry-After"))
		assert.Contains(t, []int{200, dropped}, first.Code)
	})
}

func TestWithoutKeyARepeatIsDeliveredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p := open(t, dir, 1)
		post(p, "", message("m1", "a", "Hi"))
		post(p, "", message("m1", "a", "Hi"))
		ledger, err := provider.Ledger(dir)
		require.NoError(t, err)
		require.Len(t, ledger, 2)
		assert.Equal(t, ledger[0].ID, ledger[1].ID)
	})
}

func TestWhatIsNoMessage(t *testing.T) {
	p := open(t, t.TempDir(), 1)
	for _, body := range []string{"", "{", "[]", `{"id":"m","from":"a","to":"b"}`, message("", "a", "Hi"), `{"id":"` + strings.Repeat("x", 1<<17) + `"}`} {
		assert.Equal(t, http.StatusBadRequest, post(p, "", body).Code)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/messages", nil))
	assert.Equal(t, http.StatusNotFound, w.Code)
}
