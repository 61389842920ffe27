package limiter

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/politehttp/polite/limiter/clientip"
)

// The functions below make keys for a Rule. Each begins its keys with a word of
// its own, so that a user who is called 203.0.113.7 is not that address, also
// if two rules share a Limit.
//
// What a client can choose at will is no identity: a limit for each value of an
// unchecked header is no limit, for the client sends another value each time.
// Key by a user, tenant or API key only once it is known to be genuine, return
// "" until then, and let a rule by address stand beside it.

// Global gives all requests the same key: the limit is one for all of them.
func Global(*http.Request) string { return "global" }

// ByAddress keys by the client's address, as src finds it: the whole address
// for IPv4, the /64 network for IPv6. With a nil src that is the connection's
// address, which is right if no proxy is in front. Every request has one, so a
// key is never empty.
//
// It panics with what src.Check returns if that is not nil: behind a proxy that
// is not known as one, all clients would share the proxy's key.
func ByAddress(src *clientip.Source) func(*http.Request) string {
	if err := src.Check(); err != nil {
		panic(err)
	}
	return func(r *http.Request) string {
		b := append(make([]byte, 0, 64), "address|"...)
		return string(src.AppendKey(b, r))
	}
}

// ByUser keys by whom user names, and by nobody if user returns "": it should
// do so for everyone who is not signed in. They are then limited by the address
// of the connection, which behind a proxy is the proxy's: see [FirstOf]. It
// panics if user is nil.
func ByUser(user func(*http.Request) string) func(*http.Request) string {
	if user == nil {
		panic("limiter: ByUser needs a function that names the user")
	}
	return by("user", user)
}

// ByTenant keys by the customer that tenant names, as ByUser does by user.
func ByTenant(tenant func(*http.Request) string) func(*http.Request) string {
	if tenant == nil {
		panic("limiter: ByTenant needs a function that names the tenant")
	}
	return by("tenant", tenant)
}

func by(kind string, value func(*http.Request) string) func(*http.Request) string {
	return func(r *http.Request) string {
		v := value(r)
		if v == "" {
			return ""
		}
		return Key(kind, v)
	}
}

// ByHeader keys by the value of a header, of its first line if there are
// several, and by nobody without one. The key shows the value, so it must be no
// secret (for these there is ByAPIKey), and the header should be one that a
// proxy of yours sets, for a client writes what it likes. It panics if no
// header can have the name.
func ByHeader(name string) func(*http.Request) string {
	name = fieldName("ByHeader", name)
	return func(r *http.Request) string {
		v := first(r.Header, name)
		if v == "" {
			return ""
		}
		return Key("header", name, v)
	}
}

// ByAPIKey keys by a secret in a header, such as X-Api-Key or Authorization,
// and by nobody without one. The key is a hash of the secret (128 bits of
// SHA-256), so it may be stored, logged and shown; a secret that can be guessed
// can be guessed from it as well. The scheme before the secret in Authorization
// does not count, since its case and the spaces after it are the client's
// choice.
//
// It does not know which secrets are genuine: see the note on keys at [Rule],
// or key by the account to which the secret belongs, with ByUser. It panics if
// no header can have the name.
func ByAPIKey(header string) func(*http.Request) string {
	header = fieldName("ByAPIKey", header)
	return func(r *http.Request) string {
		v := first(r.Header, header)
		if header == "Authorization" {
			if i := strings.IndexAny(v, " \t"); i >= 0 {
				v = strings.TrimLeft(v[i:], " \t")
			}
		}
		if v == "" {
			return ""
		}
		sum := hashOf(v)
		b := append(make([]byte, 0, 64), "api-key|"...)
		return string(base64.RawURLEncoding.AppendEncode(b, sum[:16]))
	}
}

// hashOf returns the SHA-256 of s; if s is as short as secrets are, without an
// allocation.
func hashOf(s string) (sum [sha256.Size]byte) {
	var short [256]byte
	if len(s) <= len(short) {
		return sha256.Sum256(short[:copy(short[:], s)])
	}
	h := sha256.New()
	piece := make([]byte, 1<<10)
	writeString(h, s, piece)
	copy(sum[:], h.Sum(piece[:0]))
	return sum
}

// FirstOf keys by the first of keys that is not empty: by user who is signed
// in, and everyone else by address. It panics if there are none, or one is nil.
func FirstOf(keys ...func(*http.Request) string) func(*http.Request) string {
	if len(keys) == 0 {
		panic("limiter: FirstOf needs at least one key function")
	}
	for i, key := range keys {
		if key == nil {
			panic(fmt.Sprintf("limiter: FirstOf has nil for key function %d of %d", i+1, len(keys)))
		}
	}
	return func(r *http.Request) string {
		for _, key := range keys {
			if k := key(r); k != "" {
				return k
			}
		}
		return ""
	}
}

// fieldName is the name of a header in canonical form. A rule by a header that
// no request has would limit all callers by their connection.
func fieldName(of, name string) string {
	canonical := http.CanonicalHeaderKey(name)
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			panic(fmt.Sprintf("limiter: %s(%q): a header's name has letters, digits and !#$%%&'*+-.^_`|~ (RFC 9110 section 5.1)", of, name))
		}
	}
	if name == "" || canonical == "Host" {
		panic(fmt.Sprintf("limiter: %s(%q): no request has this header in Request.Header", of, name))
	}
	return canonical
}

// first is the first line of a header whose name is in canonical form.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
