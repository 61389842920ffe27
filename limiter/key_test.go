package limiter

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter/clientip"
)

func TestKey(t *testing.T) {
	for _, c := range []struct {
		parts []string
		want  string
	}{
		{nil, ""},
		{[]string{""}, "%"},
		{[]string{"", ""}, "%|%"},
		{[]string{"a"}, "a"},
		{[]string{"a", ""}, "a|%"},
		{[]string{"", "a"}, "%|a"},
		{[]string{"a:b", "c"}, "a:b|c"},
		{[]string{"a", "b:c"}, "a|b:c"},
		{[]string{"a|b"}, "a%7Cb"},
		{[]string{"%7C"}, "%257C"},
		{[]string{"%"}, "%25"},
		{[]string{"%~x"}, "%25~x"},
		{[]string{"{tag}", "a b"}, "%7Btag%7D|a%20b"},
		{[]string{"Zoë\n\x00\x7f\xff"}, "Zo%C3%AB%0A%00%7F%FF"},
		{[]string{"user", "ann@example.org"}, "user|ann@example.org"},
		{[]string{strings.Repeat("x", maxKey)}, strings.Repeat("x", maxKey)},
		{[]string{strings.Repeat("x", maxKey-2), ""}, strings.Repeat("x", maxKey-2) + "|%"},
		{[]string{strings.Repeat("x", maxKey-1), ""}, "%~pmEv8g0saH9LH-wOrdnkWA"},
		{[]string{strings.Repeat("x", maxKey), ""}, "%~IQ-W3G5k7STqf4EkDahJ_A"},
		{[]string{"user", strings.Repeat("x", maxKey-5)}, "user|" + strings.Repeat("x", maxKey-5)},
		{[]string{"user", strings.Repeat("x", maxKey-4)}, "user|%~zXxX1Uo-0WfbEc0E1VKP2g"},
	} {
		assert.Equal(t, c.want, Key(c.parts...), "%q", c.parts)
	}
}

// keyParts is the list that a key was made of; ok is false if it is a hash.
func keyParts(key string) (list []string, ok bool) {
	if key == "" {
		return nil, true
	}
	for _, p := range strings.Split(key, "|") {
		if p == "%" {
			p = ""
		}
		raw, err := url.PathUnescape(p)
		if err != nil {
			return nil, false
		}
		list = append(list, raw)
	}
	return list, true
}

// checkKey holds what is promised of a key: it can be read back, so no two lists
// have the same, and it is short and plain.
func checkKey(t *testing.T, list []string) string {
	t.Helper()
	key := Key(list...)
	if len(key) > maxKey || (len(list) == 0) != (key == "") {
		t.Fatalf("%q has the key %q", list, key)
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("{}\"'\\<>&*?[]", c) >= 0 {
			t.Fatalf("%q has the key %q, with a %q", list, key, c)
		}
	}
	if got, ok := keyParts(key); ok {
		if !slices.Equal(got, list) {
			t.Fatalf("%q of %q is read as %q", key, list, got)
		}
		return key
	}
	escaped := 0
	for _, p := range list {
		escaped += 1 + max(1, 3*len(p))
	}
	if !strings.Contains(key, "%~") || escaped <= maxKey {
		t.Fatalf("%q has the key %q, which cannot be read back", list, key)
	}
	return key
}

// Lists that are cut in other places, or long, or odd, have keys of their own.
func TestKeyIsInjective(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	letters := []string{"a", "b", "|", "%", "~", ":", "", "7", "C", "{", "é", "\x00", "%~", "%7C", strings.Repeat("l", 80), strings.Repeat("|", 60)}
	seen := map[string]string{}
	for range 30_000 {
		list := make([]string, r.IntN(4))
		for i := range list {
			for range r.IntN(4) {
				list[i] += letters[r.IntN(len(letters))]
			}
		}
		key, want := checkKey(t, list), fmt.Sprintf("%q", list)
		if old, ok := seen[key]; ok && old != want {
			t.Fatalf("%s and %s have one key: %s", old, want, key)
		}
		seen[key] = want
	}
}

func FuzzKey(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("", "", "", "%")
	f.Add("{user}", strings.Repeat("x", 300), "%7Buser%7D", strings.Repeat("x", 301))
	f.Add("%~", "|", "%", "~|")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		lists := [][]string{{a}, {a, b}, {c, d}, {a, b, c}, {a + b, c}, {a, b + c}, {a, b, c, d}, {a + "|" + b}, {b}}
		keys := make([]string, len(lists))
		for i, list := range lists {
			keys[i] = checkKey(t, list)
			for j := range i {
				require.Equal(t, slices.Equal(list, lists[j]), keys[i] == keys[j], "%q and %q", list, lists[j])
			}
		}
	})
}

func keyRequest(peer string, header ...string) *http.Request {
	r := &http.Request{Method: "GET", URL: &url.URL{Path: "/"}, RemoteAddr: peer, Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// basicUser is the name that a request gives, unchecked: a stand-in for what an
// authenticating middleware knows.
func basicUser(r *http.Request) string {
	user, _, _ := r.BasicAuth()
	return user
}

func TestKeyFunctions(t *testing.T) {
	const peer = "203.0.113.7:1"
	src := &clientip.Source{Header: "X-Forwarded-For", Trusted: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}
	for _, c := range []struct {
		name string
		key  func(*http.Request) string
		r    *http.Request
		want string
	}{
		{"global", Global, keyRequest(peer), "global"},
		{"address", ByAddress(nil), keyRequest(peer, "X-Forwarded-For", "8.8.8.8"), "address|203.0.113.7"},
		{"address, IPv6", ByAddress(nil), keyRequest("[2001:db8:1:2:3::]:1"), "address|2001:db8:1:2::/64"},
		{"address behind a proxy", ByAddress(src), keyRequest(peer, "X-Forwarded-For", "8.8.8.8"), "address|8.8.8.8"},
		{"address, behind a proxy that sets no header", ByAddress(src), keyRequest(peer), "address|203.0.113.7"}, // tollbooth passes over the limit
		{"no address", ByAddress(nil), keyRequest("@"), "address|local"},
		{"user", ByUser(basicUser), keyRequest(peer, "Authorization", "Basic YW5uOng="), "user|ann"},
		{"no user", ByUser(basicUser), keyRequest(peer), ""},
		{"tenant", ByTenant(basicUser), keyRequest(peer, "Authorization", "Basic YW5uOng="), "tenant|ann"},
		{"no tenant", ByTenant(basicUser), keyRequest(peer), ""},
		{"header", ByHeader("x-plan"), keyRequest(peer, "X-Plan", "gold {1}"), "header|X-Plan|gold%20%7B1%7D"},
		{"header, first line", ByHeader("x-plan"), keyRequest(peer, "X-Plan", "gold", "X-Plan", "tin"), "header|X-Plan|gold"},
		{"no header", ByHeader("X-Plan"), keyRequest(peer), ""},
		{"empty header", ByHeader("X-Plan"), keyRequest(peer, "X-Plan", ""), ""},
		{"first of", FirstOf(ByUser(basicUser), ByAddress(nil)), keyRequest(peer, "Authorization", "Basic YW5uOng="), "user|ann"},
		{"second of", FirstOf(ByUser(basicUser), ByAddress(nil)), keyRequest(peer), "address|203.0.113.7"},
		{"none of", FirstOf(ByUser(basicUser)), keyRequest(peer), ""},
		{"no API key", ByAPIKey("X-API-Key"), keyRequest(peer), ""},
		{"API key", ByAPIKey("X-API-Key"), keyRequest(peer, "X-Api-Key", "secret"), "api-key|K7gNU3sdo-OL0wNhqoVWhg"},
		{"API key as credentials", ByAPIKey("authorization"), keyRequest(peer, "Authorization", "Bearer secret"), "api-key|K7gNU3sdo-OL0wNhqoVWhg"},
		{"API key, scheme in another case", ByAPIKey("Authorization"), keyRequest(peer, "Authorization", "bEARER  \t secret"), "api-key|K7gNU3sdo-OL0wNhqoVWhg"},
		{"API key without scheme", ByAPIKey("Authorization"), keyRequest(peer, "Authorization", "secret"), "api-key|K7gNU3sdo-OL0wNhqoVWhg"},
		{"empty credentials", ByAPIKey("Authorization"), keyRequest(peer, "Authorization", "Bearer "), ""},
	} {
		assert.Equal(t, c.want, c.key(c.r), c.name)
	}
	assert.Panics(t, func() { ByAddress(&clientip.Source{Header: "X-Forwarded-For"}) })
	assert.PanicsWithValue(t, "limiter: ByUser needs a function that names the user", func() { ByUser(nil) })
}

// Whoever is called like somebody else's address, user or header is somebody
// else still.
func TestKindsOfKeysDoNotMeet(t *testing.T) {
	name := func(s string) func(*http.Request) string { return func(*http.Request) string { return s } }
	r := keyRequest("203.0.113.7:1", "X-Plan", "203.0.113.7", "X-Api-Key", "203.0.113.7")
	keys := map[string]bool{}
	for _, key := range []func(*http.Request) string{
		Global, ByAddress(nil), ByUser(name("203.0.113.7")), ByTenant(name("203.0.113.7")), ByHeader("X-Plan"), ByAPIKey("X-Api-Key"),
		ByUser(name("address|203.0.113.7")), ByUser(name("global")), ByTenant(name("user|global")),
	} {
		k := key(r)
		require.NotContains(t, keys, k)
		keys[k] = true
	}
	assert.Len(t, keys, 9)
}

// A secret is in no key, however long or short it is.
func TestKeyHidesSecret(t *testing.T) {
	for _, secret := range []string{"s3cr3t", strings.Repeat("s3cr3t", 100), "Bearer s3cr3t"} {
		key := ByAPIKey("Authorization")(keyRequest("203.0.113.7:1", "Authorization", secret))
		assert.Len(t, key, len("api-key|")+22)
		assert.NotContains(t, key, "s3cr3t")
	}
}

// What a client sends costs little to make a key of, whatever it is.
func TestKeyAllocations(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	r := keyRequest("203.0.113.7:1", "X-Plan", "gold", "X-Api-Key", strings.Repeat("k", 64), "X-Long", long)
	six := keyRequest("[2001:db8:1111:2222:3333:4444:5555:6666]:1")
	user := ByUser(func(*http.Request) string { return "ann" })
	address, plan, api := ByAddress(nil), ByHeader("X-Plan"), ByAPIKey("X-Api-Key")
	longHeader, longSecret := ByHeader("X-Long"), ByAPIKey("X-Long")
	for _, c := range []struct {
		name string
		most float64
		f    func() string
	}{
		{"address", 1, func() string { return address(r) }},
		{"address, IPv6", 1, func() string { return address(six) }},
		{"user", 1, func() string { return user(r) }},
		{"header", 1, func() string { return plan(r) }},
		{"API key", 1, func() string { return api(r) }},
		{"global", 0, func() string { return Global(r) }},
		{"a megabyte", 4, func() string { return longHeader(r) }},
		{"a megabyte of secret", 4, func() string { return longSecret(r) }},
	} {
		var sink string
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { sink = c.f() }), c.most, c.name)
		assert.LessOrEqual(t, len(sink), maxKey)
	}
}

func BenchmarkKey(b *testing.B) {
	r := keyRequest("203.0.113.7:1", "X-Api-Key", strings.Repeat("k", 40))
	six := keyRequest("[2001:db8:1111:2222:3333:4444:5555:6666]:1")
	address, user, secret := ByAddress(nil), ByUser(func(*http.Request) string { return "ann@example.org" }), ByAPIKey("X-Api-Key")
	for _, c := range []struct {
		name string
		f    func() string
	}{
		{"address", func() string { return address(r) }},
		{"address6", func() string { return address(six) }},
		{"user", func() string { return user(r) }},
		{"secret", func() string { return secret(r) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.f()
			}
		})
	}
}
