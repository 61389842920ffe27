package clientip

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The header of RFC 7239. Where nothing can be read, the proxy that connected
// is the client: 10.0.0.1.
func TestForwarded(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		// The examples of RFC 7239, section 4.
		{"RFC: obfuscated", []string{`for="_gazonk"`}, "10.0.0.1"},
		{"RFC: IPv6 and port", []string{`For="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::17"},
		{"RFC: several pairs", []string{`for=192.0.2.60;proto=http;by=203.0.113.43`}, "192.0.2.60"},
		{"RFC: list", []string{`for=192.0.2.43, for=198.51.100.17`}, "198.51.100.17"},
		{"RFC: list of IPv4 and IPv6", []string{`for=192.0.2.43, for="[2001:db8:cafe::17]"`}, "2001:db8:cafe::17"},
		{"RFC: several lines", []string{`for=192.0.2.43, for="[2001:db8:cafe::17]"`, `for=unknown`}, "10.0.0.1"},
		{"RFC: section 7.1", []string{`for=192.0.2.43,for="[2001:db8:cafe::17]"`}, "2001:db8:cafe::17"},

		{"through proxies", []string{`for=8.8.8.8, for=1.2.3.4, for=10.0.0.2;by=10.0.0.1`}, "1.2.3.4"},
		{"all trusted", []string{`for=10.0.0.3, for=10.0.0.2`}, "10.0.0.3"},
		{"case", []string{`FOR=1.2.3.4`}, "1.2.3.4"},
		{"for comes last", []string{`proto=https;host="a,b;c";for=1.2.3.4`}, "1.2.3.4"},
		{"a comma and a semicolon within quotes", []string{`for=1.2.3.4;host="a, for=8.8.8.8;for=9.9.9.9"`}, "1.2.3.4"},
		{"port", []string{`for="1.2.3.4:99"`}, "1.2.3.4"},
		{"obfuscated port", []string{`for="1.2.3.4:_x-1"`}, "1.2.3.4"},
		{"obfuscated port of IPv6", []string{`for="[2001:db8::1]:_x"`}, "2001:db8::1"},
		{"zone", []string{`for="[2001:db8::1%eth0]"`}, "2001:db8::1"},
		{"mapped", []string{`for="[::ffff:1.2.3.4]"`}, "1.2.3.4"},
		{"escapes", []string{`for="1\.2.3\.4"`}, "1.2.3.4"},
		{"escaped quote in another pair", []string{`for=1.2.3.4;host="a\", for=8.8.8.8"`}, "1.2.3.4"},
		{"escaped quote after a comma", []string{`for=1.2.3.4;host="a, for=8.8.8.8\""`}, "1.2.3.4"},
		{"escaped backslash before the closing quote", []string{`for=8.8.8.8;host="\\", for=1.2.3.4;host="\\\\"`}, "1.2.3.4"},
		{"empty pairs", []string{`;for=1.2.3.4;`}, "1.2.3.4"},
		{"white space beside the semicolon", []string{`for=1.2.3.4 ; proto=https`}, "1.2.3.4"},
		{"an unknown parameter", []string{`for=1.2.3.4;secret=x`}, "1.2.3.4"},

		// An error voids what stands to its left, and nothing else (play#14086).
		{"error to the left of the client", []string{`for="x, for=1.2.3.4`}, "1.2.3.4"},
		{"an open quote cannot swallow a proxy's element", []string{`for=8.8.8.8;by=", for=1.2.3.4`}, "1.2.3.4"},
		{"nor over lines", []string{`for=8.8.8.8;by="`, `for=1.2.3.4`}, "1.2.3.4"},
		{"nor one with quotes of its own", []string{`for=8.8.8.8;by=", for="[2001:db8::1]"`}, "2001:db8::1"},
		{"nor one that ends in a backslash", []string{`for=8.8.8.8;by="\`, `for="[2001:db8::1]"`}, "2001:db8::1"},
		{"error in the middle", []string{`for=1.2.3.4, for=, for=10.0.0.2`}, "10.0.0.2"},

		{"two for", []string{`for=1.2.3.4;for=1.2.3.4`}, "10.0.0.1"},
		{"no for", []string{`proto=https`}, "10.0.0.1"},
		{"empty element", []string{`for=1.2.3.4,`}, "10.0.0.1"},
		{"empty pairs alone", []string{`;;`}, "10.0.0.1"},
		{"unquoted IPv6", []string{`for=[2001:db8::1]`}, "10.0.0.1"},
		{"IPv6 without brackets", []string{`for="2001:db8::1"`}, "10.0.0.1"},
		{"unquoted port", []string{`for=1.2.3.4:99`}, "10.0.0.1"},
		{"bare address", []string{`1.2.3.4`}, "10.0.0.1"},
		{"IPv4 in brackets", []string{`for="[1.2.3.4]"`}, "10.0.0.1"},
		{"leading zeros", []string{`for=01.2.3.4`}, "10.0.0.1"},
		{"unspecified", []string{`for="[::]"`}, "10.0.0.1"},
		{"unknown", []string{`for=unknown`}, "10.0.0.1"},
		{"empty quotes", []string{`for=""`}, "10.0.0.1"},
		{"empty port", []string{`for="1.2.3.4:"`}, "10.0.0.1"},
		{"empty obfuscated port", []string{`for="1.2.3.4:_"`}, "10.0.0.1"},
		{"odd port", []string{`for="1.2.3.4:_a!"`}, "10.0.0.1"},
		{"space before the equals sign", []string{`for =1.2.3.4`}, "10.0.0.1"},
		{"space after the equals sign", []string{`for= 1.2.3.4`}, "10.0.0.1"},
		{"text after the value", []string{`for=1.2.3.4 x`}, "10.0.0.1"},
		{"text after the quotes", []string{`for="1.2.3.4"x`}, "10.0.0.1"},
		{"no value", []string{`for`}, "10.0.0.1"},
		{"no value for another", []string{`for=1.2.3.4;proto=`}, "10.0.0.1"},
		{"no name", []string{`=1.2.3.4`}, "10.0.0.1"},
		{"open quote at the end", []string{`for="1.2.3.4`}, "10.0.0.1"},
		{"quote closed by an escaped one", []string{`for="1.2.3.4\"`}, "10.0.0.1"},
		{"NUL within quotes", []string{"for=\"1.2.3.4\x00\""}, "10.0.0.1"},
		{"escaped control within quotes", []string{"for=\"1.2.3.4\\\x01\""}, "10.0.0.1"},
		{"space within quotes", []string{`for=" 1.2.3.4"`}, "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			unread := false
			src := &Source{Header: "Forwarded", Trusted: proxies, Unreadable: func(*http.Request) { unread = true }}
			require.NoError(t, src.Check())
			assert.Equal(t, c.want, text(src.Addr(request(proxy, "Forwarded", c.lines...))))
			if c.want == "10.0.0.1" {
				assert.True(t, unread)
			}
		})
	}
}

// Only the header that is configured is read.
func TestOneHeader(t *testing.T) {
	r := request(proxy, xff, "1.1.1.1")
	r.Header.Set("Forwarded", "for=2.2.2.2")
	r.Header.Set("X-Real-IP", "3.3.3.3")
	for header, want := range map[string]string{
		"X-Forwarded-For": "1.1.1.1", "x-forwarded-for": "1.1.1.1", "Forwarded": "2.2.2.2", "FORWARDED": "2.2.2.2",
		"X-Real-Ip": "3.3.3.3", "Cf-Connecting-Ip": "10.0.0.1",
	} {
		src := &Source{Header: header, Trusted: proxies}
		require.NoError(t, src.Check())
		assert.Equal(t, want, text(src.Addr(r)), header)
	}
}
