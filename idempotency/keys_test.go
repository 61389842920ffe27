package idempotency_test

import (
	"context"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/idempotency"
)

// The vector is for ever: a changed Derive would send old rows a second time.
func TestDerive(t *testing.T) {
	assert.Equal(t, "lsP7yobB2BdNJzckbNNscMmMwwWOBp2g", idempotency.Derive("job", "1"))
	seen := map[string][]string{}
	for _, parts := range [][]string{nil, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"job", "1"}, {"job", "01"}} {
		key := idempotency.Derive(parts...)
		assert.Regexp(t, `^[A-Za-z0-9_-]{32}$`, key)
		assert.NotContains(t, seen, key, "%q and %q collide", parts, seen[key])
		seen[key] = parts
	}
}

func request(t *testing.T, ctx context.Context, method string, header ...string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, "http://api.test/", nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = []string{header[i+1]}
	}
	return r
}

func TestFor(t *testing.T) {
	none := context.Background()
	own := idempotency.WithKey(none, `a"b\c`)
	fixed := &idempotency.Keys{New: func() string { return "new" }}
	quoted := &idempotency.Keys{New: fixed.New, Quote: true}
	paypal := &idempotency.Keys{New: fixed.New, Header: "paypal-request-id"}
	puts := &idempotency.Keys{New: fixed.New, Methods: []string{"PUT", "GET"}}
	for _, c := range []struct {
		name        string
		keys        *idempotency.Keys
		r           *http.Request
		header, key string
	}{
		{"post gets one", fixed, request(t, none, "POST"), "Idempotency-Key", "new"},
		{"patch gets one", fixed, request(t, none, "PATCH"), "Idempotency-Key", "new"},
		{"get gets none", fixed, request(t, none, "GET"), "Idempotency-Key", ""},
		{"put gets none", fixed, request(t, none, "PUT"), "Idempotency-Key", ""},
		{"the methods can be named", puts, request(t, none, "PUT"), "Idempotency-Key", "new"},
		{"an empty method is GET", puts, &http.Request{}, "Idempotency-Key", "new"},
		{"and POST is then not among them", puts, request(t, none, "POST"), "Idempotency-Key", ""},
		{"the caller's header stays", fixed, request(t, none, "POST", "Idempotency-Key", "mine"), "Idempotency-Key", ""},
		{"however it is written", fixed, request(t, none, "POST", "idempotency-KEY", "mine"), "Idempotency-Key", ""},
		{"also before WithKey", fixed, request(t, own, "POST", "Idempotency-Key", "mine"), "Idempotency-Key", ""},
		{"another header, canonical", paypal, request(t, none, "POST"), "Paypal-Request-Id", "new"},
		{"in quotes", quoted, request(t, none, "POST"), "Idempotency-Key", `"new"`},
		{"escaped in quotes", quoted, request(t, own, "POST"), "Idempotency-Key", `"a\"b\\c"`},
		{"own key", fixed, request(t, own, "POST"), "Idempotency-Key", `a"b\c`},
		{"own key on any method", fixed, request(t, own, "GET"), "Idempotency-Key", `a"b\c`},
		{"own key without Keys", nil, request(t, own, "POST"), "Idempotency-Key", `a"b\c`},
		{"nothing without Keys", nil, request(t, none, "POST"), "Idempotency-Key", ""},
		{"own empty key: none", fixed, request(t, idempotency.WithKey(none, ""), "POST"), "Idempotency-Key", ""},
		{"no header map", fixed, &http.Request{Method: "POST"}, "Idempotency-Key", "new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.r.Header.Clone()
			header, key, err := c.keys.For(c.r)
			require.NoError(t, err)
			assert.Equal(t, c.header, header)
			assert.Equal(t, c.key, key)
			assert.Equal(t, before, c.r.Header, "the request was written to")
		})
	}
}

func TestAKeyThatCannotBeSent(t *testing.T) {
	for _, bad := range []string{"a\nb", "a\x00", "secret-ü", "\x7f"} {
		r := request(t, idempotency.WithKey(context.Background(), bad), "POST")
		_, _, err := (&idempotency.Keys{Quote: true}).For(r)
		require.ErrorContains(t, err, "printable ASCII", "%q", bad)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestVouched(t *testing.T) {
	ctx := context.Background()
	paypal := &idempotency.Keys{Header: "PayPal-Request-Id"}
	assert.True(t, (*idempotency.Keys)(nil).Vouched(request(t, ctx, "POST", "Idempotency-Key", "k")))
	assert.True(t, (*idempotency.Keys)(nil).Vouched(request(t, ctx, "POST", "X-Idempotency-Key", "k")))
	assert.True(t, paypal.Vouched(request(t, ctx, "POST", "Paypal-Request-Id", "k")))
	assert.False(t, (*idempotency.Keys)(nil).Vouched(request(t, ctx, "POST", "Paypal-Request-Id", "k")))
	assert.True(t, paypal.Vouched(request(t, ctx, "POST", "paypal-request-id", "k")), "however it is written")
	assert.False(t, paypal.Vouched(request(t, ctx, "POST", "X-Request-Id", "k")), "X-Request-Id is for tracing")
	assert.False(t, paypal.Vouched(request(t, ctx, "POST", "Idempotency-Key", "")))
	assert.False(t, paypal.Vouched(&http.Request{}))
}

func TestRandomKeysAreUUIDs(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	keys, seen := &idempotency.Keys{}, map[string]bool{}
	for range 1000 {
		_, key, err := keys.For(request(t, context.Background(), "POST"))
		require.NoError(t, err)
		require.Regexp(t, uuid, key)
		require.False(t, seen[key], "%s came twice", key)
		seen[key] = true
	}
}

func BenchmarkFor(b *testing.B) {
	r, _ := http.NewRequest("POST", "http://api.test/", nil)
	keys := &idempotency.Keys{}
	b.ReportAllocs()
	for b.Loop() {
		if _, key, err := keys.For(r); key == "" || err != nil {
			b.Fatal(key, err)
		}
	}
}
