// Package idempotency gives one effect to many tries.
//
// A call that creates something (a message, a payment) may be sent twice: the
// first answer was lost, and nobody can tell whether the provider acted. If
// both tries carry the same key, a provider that knows keys acts once and
// answers the second with what it answered the first.
//
//	call ─► key, once ─► try 1 ──► provider: acts, remembers key → answer
//	                 └──► try 2 ──► provider: knows key, replays the answer
//
// Which key to choose:
//
//	a row of a job, an order, a message   WithKey(ctx, Derive("job", row)): the same
//	                                      after a crash and in the next run
//	anything else                         Keys: a fresh random key for each call
//
// What is guaranteed: one key for one logical call, the same on every try, and
// never in place of a header that the caller set. What is not: that the
// provider knows keys. Most ignore the header, and a key they ignore makes a
// repeat unsafe, which is why nothing here is on by default: who sets Keys
// vouches for the provider.
//
// The header is the one of draft-ietf-httpapi-idempotency-key-header-07. The
// draft sends its value as a Structured Field string, in quotes; the providers
// that had the name before the draft (Stripe, Adyen and most others) take it
// bare, so bare is the default and [Keys].Quote the choice.
package idempotency

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// DefaultHeader is the field that carries the key unless [Keys].Header names
// another.
const DefaultHeader = "Idempotency-Key"

// Keys says which calls get a key, and how it is sent. The zero value gives
// every POST and PATCH a random key in Idempotency-Key. It holds no state and
// may be copied.
type Keys struct {
	Header  string        // field name; zero: "Idempotency-Key". PayPal wants PayPal-Request-Id
	Methods []string      // which methods get a key; zero: POST and PATCH
	Quote   bool          // send the key in quotes, as the draft writes it; zero: bare
	New     func() string // makes a key for a call that has none; zero: a random UUID (RFC 9562, version 4)
}

type keyContext struct{}

// WithKey gives the call of ctx its own key, for example one that [Derive] made
// from a job and a row. It is sent whatever the method, also by a Transport
// whose Keys are nil, and vouches that the call may be repeated. An empty key
// asks for none, not even a random one.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyContext{}, key)
}

// For returns the header field to add to r and its value; an empty key means
// that nothing is to be added, for the caller set the field already or the
// method needs none. A nil k adds only what [WithKey] asked for. The error says
// what is wrong with a key that cannot be sent; it does not repeat the key.
func (k *Keys) For(r *http.Request) (header, key string, err error) {
	own, ok := r.Context().Value(keyContext{}).(string)
	if header = k.header(); !ok && !k.covers(r.Method) {
		return header, "", nil
	}
	switch {
	case has(r.Header, header):
		return header, "", nil
	case ok:
		key, err = own, check(own)
	case k.New != nil:
		key = k.New()
		err = check(key)
	default:
		key = newUUID()
	}
	if err != nil {
		return "", "", err
	}
	if key != "" && k != nil && k.Quote {
		key = quote(key)
	}
	return header, key, nil
}

func check(key string) error {
	for i := range len(key) {
		if c := key[i]; c < ' ' || c > '~' {
			return fmt.Errorf("idempotency: key has the character %q at byte %d; allowed are printable ASCII characters", c, i)
		}
	}
	return nil
}

// Vouched reports whether r carries a key already, in the field that k uses or
// in one of the two that net/http takes for a licence to repeat a request
// (Idempotency-Key and X-Idempotency-Key, see net/http.Transport).
func (k *Keys) Vouched(r *http.Request) bool {
	for name, values := range r.Header {
		if len(values) > 0 && values[0] != "" && (strings.EqualFold(name, DefaultHeader) || strings.EqualFold(name, "X-Idempotency-Key") ||
			k != nil && k.Header != "" && strings.EqualFold(name, k.Header)) {
			return true
		}
	}
	return false
}

// has reports whether h has the field, however its name is written there: a
// caller may set one past http.Header's methods, and it goes out as it is.
func has(h http.Header, field string) bool {
	for name, values := range h {
		if len(values) > 0 && strings.EqualFold(name, field) {
			return true
		}
	}
	return false
}

func (k *Keys) header() string {
	if k == nil || k.Header == "" {
		return DefaultHeader
	}
	return http.CanonicalHeaderKey(k.Header)
}

func (k *Keys) covers(method string) bool {
	if k == nil {
		return false
	}
	if k.Methods == nil {
		return method == http.MethodPost || method == http.MethodPatch
	}
	if method == "" {
		method = http.MethodGet
	}
	return slices.Contains(k.Methods, method)
}

// quote writes a Structured Field string (RFC 9651, section 4.1.6).
func quote(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}
