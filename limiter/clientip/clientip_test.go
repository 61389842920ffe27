package clientip

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The proxies of the tests.
var proxies = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("fd00::/8"),
	netip.MustParsePrefix("fe80::/10"),
}

const (
	xff   = "X-Forwarded-For"
	proxy = "10.0.0.1:4711"
)

// request comes from a connection and has the lines of one header.
func request(peer, header string, lines ...string) *http.Request {
	r := &http.Request{RemoteAddr: peer, Header: http.Header{}}
	for _, line := range lines {
		r.Header.Add(header, line)
	}
	return r
}

// text is an address, or "-" for none.
func text(a netip.Addr) string {
	if !a.IsValid() {
		return "-"
	}
	return a.String()
}

func TestConnection(t *testing.T) {
	for _, c := range []struct{ peer, want string }{
		{"203.0.113.7:1234", "203.0.113.7"},
		{"203.0.113.7", "203.0.113.7"},
		{"[2001:db8::1]:1234", "2001:db8::1"},
		{"[fe80::1%eth0]:1234", "fe80::1"},
		{"fe80::1%eth0", "fe80::1"},
		{"[::ffff:203.0.113.7]:1234", "203.0.113.7"},
		{"[::ffff:203.0.113.7%eth0]:1234", "203.0.113.7"},
		{"::1", "::1"},
		{"@", "-"}, // a Unix socket, as net/http has it
		{"", "-"},
		{"/run/app.sock", "-"},
		{"pipe", "-"},
		{"203.0.113.7:", "-"},
		{"203.0.113.7:x", "-"},
		{"0.0.0.0:80", "-"},
		{"[::]:80", "-"},
		{"[::ffff:0.0.0.0]:80", "-"},
	} {
		// Whatever a header says: nobody is trusted to set one.
		r := request(c.peer, xff, "8.8.8.8")
		r.Header.Set("Forwarded", "for=8.8.8.8")
		r.Header.Set("X-Real-IP", "8.8.8.8")
		for name, src := range map[string]*Source{
			"nil": nil, "zero": {}, "header alone": {Header: xff},
			"of others": {Header: xff, Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
			"both ways": {Header: xff, Trusted: proxies, Hops: 1},
		} {
			assert.Equal(t, c.want, text(src.Addr(r)), "%s: %s", c.peer, name)
		}
	}
}

// The proxies' prefixes are known.
func TestTrusted(t *testing.T) {
	for _, c := range []struct {
		name, peer string
		lines      []string
		want       string
		unreadable bool
	}{
		{"stranger with a header", "203.0.113.7:1", []string{"8.8.8.8"}, "203.0.113.7", false},
		{"stranger with a proxy's address in it", "203.0.113.7:1", []string{"8.8.8.8, 10.0.0.1"}, "203.0.113.7", false},
		{"no header", proxy, nil, "10.0.0.1", false},
		{"one client", proxy, []string{"203.0.113.7"}, "203.0.113.7", false},
		{"spoofed to the left", proxy, []string{"8.8.8.8, 203.0.113.7"}, "203.0.113.7", false},
		{"spoofed as localhost", proxy, []string{"127.0.0.1, 203.0.113.7"}, "203.0.113.7", false}, // pagecord#937
		{"two proxies", proxy, []string{"8.8.8.8, 203.0.113.7, 10.9.9.9"}, "203.0.113.7", false},
		{"all trusted", proxy, []string{"10.1.1.1, 10.2.2.2"}, "10.1.1.1", false},
		{"port", proxy, []string{"1.2.3.4:99"}, "1.2.3.4", false},
		{"IPv6", proxy, []string{"2001:db8::1"}, "2001:db8::1", false},
		{"IPv6 in brackets", proxy, []string{"[2001:db8::1]"}, "2001:db8::1", false},
		{"IPv6 with port", proxy, []string{"[2001:db8::1]:99"}, "2001:db8::1", false},
		{"zone", proxy, []string{"2001:db8::1%eth0"}, "2001:db8::1", false},
		{"zone and port", proxy, []string{"[2001:db8::1%25eth0]:99"}, "2001:db8::1", false},
		{"mapped", proxy, []string{"::ffff:1.2.3.4"}, "1.2.3.4", false},
		{"mapped, in hexadecimal", proxy, []string{"::ffff:102:304"}, "1.2.3.4", false},
		{"a mapped proxy", proxy, []string{"1.2.3.4, ::ffff:10.0.0.2"}, "1.2.3.4", false},
		{"a mapped connection", "[::ffff:10.0.0.1]:1", []string{"1.2.3.4"}, "1.2.3.4", false},
		{"a connection of IPv6", "[fd00::1]:1", []string{"1.2.3.4, fd00::2"}, "1.2.3.4", false},
		{"a connection with a zone", "[fe80::1%eth0]:1", []string{"1.2.3.4"}, "1.2.3.4", false},
		{"white space", proxy, []string{" \t1.2.3.4 \t"}, "1.2.3.4", false},
		{"no white space", proxy, []string{"8.8.8.8,1.2.3.4,10.0.0.2"}, "1.2.3.4", false},
		{"two lines", proxy, []string{"8.8.8.8", "1.2.3.4"}, "1.2.3.4", false},
		{"two lines, the last one a proxy", proxy, []string{"8.8.8.8, 1.2.3.4", "10.0.0.2"}, "1.2.3.4", false},

		{"trailing comma", proxy, []string{"1.2.3.4,"}, "10.0.0.1", true},
		{"trailing comma after a proxy", proxy, []string{"1.2.3.4, 10.0.0.2,"}, "10.0.0.1", true},
		{"empty element", proxy, []string{"1.2.3.4, , 10.0.0.2"}, "10.0.0.2", true},
		{"empty line", proxy, []string{""}, "10.0.0.1", true},
		{"empty last line", proxy, []string{"1.2.3.4", ""}, "10.0.0.1", true},
		{"empty first line", proxy, []string{"", "10.0.0.2"}, "10.0.0.2", true},
		{"leading comma", proxy, []string{",10.0.0.2"}, "10.0.0.2", true},
		{"unknown", proxy, []string{"unknown"}, "10.0.0.1", true},
		{"never past an unknown one", proxy, []string{"1.2.3.4, unknown, 10.0.0.2"}, "10.0.0.2", true},
		{"an obfuscated one", proxy, []string{"1.2.3.4, _obf"}, "10.0.0.1", true},
		{"a name", proxy, []string{"localhost"}, "10.0.0.1", true},
		{"leading zeros", proxy, []string{"01.2.3.4"}, "10.0.0.1", true},
		{"unspecified", proxy, []string{"0.0.0.0"}, "10.0.0.1", true},
		{"unspecified IPv6", proxy, []string{"::"}, "10.0.0.1", true},
		{"unspecified, mapped", proxy, []string{"::ffff:0.0.0.0"}, "10.0.0.1", true},
		{"IPv4 in brackets", proxy, []string{"[1.2.3.4]"}, "10.0.0.1", true},
		{"IPv4 with a zone", proxy, []string{"1.2.3.4%eth0"}, "10.0.0.1", true},
		{"empty zone", proxy, []string{"2001:db8::1%"}, "10.0.0.1", true},
		{"odd zone", proxy, []string{"2001:db8::1%a b"}, "10.0.0.1", true},
		{"empty port", proxy, []string{"1.2.3.4:"}, "10.0.0.1", true},
		{"empty port after brackets", proxy, []string{"[2001:db8::1]:"}, "10.0.0.1", true},
		{"port out of range", proxy, []string{"1.2.3.4:65536"}, "10.0.0.1", true},
		{"port with a sign", proxy, []string{"1.2.3.4:+99"}, "10.0.0.1", true},
		{"obfuscated port", proxy, []string{"1.2.3.4:_99"}, "10.0.0.1", true}, // only in Forwarded
		{"text after brackets", proxy, []string{"[2001:db8::1]99"}, "10.0.0.1", true},
		{"open bracket", proxy, []string{"[2001:db8::1"}, "10.0.0.1", true},
		{"hexadecimal IPv4", proxy, []string{"0x1.2.3.4"}, "10.0.0.1", true},
		{"short IPv4", proxy, []string{"1.2.3"}, "10.0.0.1", true},
		{"decimal IPv4", proxy, []string{"16909060"}, "10.0.0.1", true},
		{"space within", proxy, []string{"1.2.3.4 5.6.7.8"}, "10.0.0.1", true},
		{"quoted", proxy, []string{`"1.2.3.4"`}, "10.0.0.1", true},
		{"other white space", proxy, []string{"1.2.3.4\v"}, "10.0.0.1", true},
		{"NUL", proxy, []string{"1.2.3.4\x00"}, "10.0.0.1", true},
		{"a long zone", proxy, []string{"2001:db8::1%" + strings.Repeat("z", 100)}, "10.0.0.1", true},
		{"a quote joins nothing here", proxy, []string{`", 1.2.3.4`}, "1.2.3.4", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			called := 0
			src := &Source{Header: xff, Trusted: proxies, Unreadable: func(*http.Request) { called++ }}
			require.NoError(t, src.Check())
			r := request(c.peer, xff, c.lines...)
			assert.Equal(t, c.want, text(src.Addr(r)))
			assert.Equal(t, c.unreadable, called == 1)
			assert.Equal(t, c.lines, r.Header[xff], "the header is not ours to change")
		})
	}
}

// The number of proxies is known.
func TestHops(t *testing.T) {
	const peer = "198.51.100.1:1"
	for _, c := range []struct {
		name  string
		hops  int
		lines []string
		want  string
	}{
		{"one proxy", 1, []string{"8.8.8.8, 1.2.3.4"}, "1.2.3.4"},
		{"two proxies", 2, []string{"8.8.8.8, 1.2.3.4, 5.6.7.8"}, "1.2.3.4"},
		{"two proxies, over lines", 2, []string{"8.8.8.8, 1.2.3.4", "5.6.7.8"}, "1.2.3.4"},
		{"just enough", 2, []string{"1.2.3.4, 5.6.7.8"}, "1.2.3.4"},
		{"never the leftmost for want of more", 2, []string{"1.2.3.4"}, "198.51.100.1"},
		{"no header", 1, nil, "198.51.100.1"},
		{"empty header", 1, []string{""}, "198.51.100.1"},
		{"never past what cannot be read", 2, []string{"1.2.3.4, unknown"}, "198.51.100.1"},
		{"what cannot be read", 2, []string{"unknown, 5.6.7.8"}, "198.51.100.1"},
		{"what stands to the left does not matter", 1, []string{"unknown, 5.6.7.8"}, "5.6.7.8"},
		{"many", 32, []string{strings.Repeat("1.2.3.4,", 100) + strings.Repeat("5.6.7.8,", 31) + "9.9.9.9"}, "5.6.7.8"},
		{"many and one more", 32, []string{"1.2.3.4," + strings.Repeat("5.6.7.8,", 30) + "9.9.9.9"}, "1.2.3.4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := &Source{Header: xff, Hops: c.hops}
			require.NoError(t, src.Check())
			unread := false
			src.Unreadable = func(*http.Request) { unread = true }
			assert.Equal(t, c.want, text(src.Addr(request(peer, xff, c.lines...))))
			assert.Equal(t, c.want == "198.51.100.1", unread)
		})
	}
}

func TestSingleValueHeader(t *testing.T) {
	for _, c := range []struct {
		name, peer string
		lines      []string
		want       string
	}{
		{"from a proxy", proxy, []string{"1.2.3.4"}, "1.2.3.4"},
		{"from a proxy, IPv6", proxy, []string{" 2001:db8::1 "}, "2001:db8::1"},
		{"from a stranger", "203.0.113.7:1", []string{"1.2.3.4"}, "203.0.113.7"},
		{"absent", proxy, nil, "10.0.0.1"},
		{"two lines", proxy, []string{"1.2.3.4", "1.2.3.4"}, "10.0.0.1"},
		{"a list", proxy, []string{"1.2.3.4, 5.6.7.8"}, "10.0.0.1"},
		{"empty", proxy, []string{""}, "10.0.0.1"},
		{"a proxy's own address", proxy, []string{"10.0.0.2"}, "10.0.0.2"},
		{"enormous", proxy, []string{strings.Repeat("1", 1<<20)}, "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := &Source{Header: "x-real-ip", Trusted: proxies} // in any case
			require.NoError(t, src.Check())
			assert.Equal(t, c.want, text(src.Addr(request(c.peer, "X-Real-IP", c.lines...))))
			if c.peer == proxy {
				src = &Source{Header: "X-Real-Ip", Hops: 1}
				require.NoError(t, src.Check())
				assert.Equal(t, c.want, text(src.Addr(request(c.peer, "X-Real-IP", c.lines...))))
			}
		})
	}
}

// A connection without an address is trusted only if the Source says so.
func TestUnixSocket(t *testing.T) {
	place := netip.MustParseAddr("127.0.0.1")
	r := request("@", xff, "8.8.8.8, 1.2.3.4")
	for _, c := range []struct {
		name string
		src  Source
		want string
	}{
		{"not said", Source{Header: xff, Trusted: proxies}, "-"},
		{"not said, hops", Source{Header: xff, Hops: 1}, "-"},
		{"a trusted placeholder alone does not say so", Source{Header: xff, Trusted: proxies, Placeholder: place}, "127.0.0.1"},
		{"said", Source{Header: xff, TrustLocal: true}, "1.2.3.4"},
		{"said, beside prefixes", Source{Header: xff, Trusted: proxies, TrustLocal: true}, "1.2.3.4"},
		{"said, hops", Source{Header: xff, Hops: 2, TrustLocal: true}, "8.8.8.8"},
		{"said, hops, too few", Source{Header: xff, Hops: 3, TrustLocal: true, Placeholder: place}, "127.0.0.1"},
	} {
		require.NoError(t, c.src.Check(), c.name)
		assert.Equal(t, c.want, text(c.src.Addr(r)), c.name)
	}
	said := &Source{Header: xff, TrustLocal: true}
	assert.Equal(t, "203.0.113.7", text(said.Addr(request("203.0.113.7:1", xff, "8.8.8.8"))), "a connection with an address")
}

// However long a header is, 32 elements and 8 KiB of it are looked at.
func TestBounds(t *testing.T) {
	src := &Source{Header: xff, Trusted: proxies}
	at := func(lines ...string) string { return text(src.Addr(request(proxy, xff, lines...))) }

	assert.Equal(t, "1.2.3.4", at(strings.Repeat("8.8.8.8,", 10_000)+"1.2.3.4"), "10,000 elements")
	assert.Equal(t, "1.2.3.4", at("1.2.3.4"+strings.Repeat(",10.0.0.2", 31)), "32 elements")
	assert.Equal(t, "10.0.0.3", at("1.2.3.4,10.0.0.3"+strings.Repeat(",10.0.0.2", 31)), "33 elements")
	lines := make([]string, 100_000)
	for i := range lines {
		lines[i] = "10.0.0.9"
	}
	assert.Equal(t, "10.0.0.9", at(lines...), "100,000 lines")

	spaces := strings.Repeat(" ", maxBytes-len("1.2.3.4"))
	assert.Equal(t, "1.2.3.4", at("1.2.3.4"+spaces), "8 KiB")
	assert.Equal(t, "10.0.0.1", at("1.2.3.4 "+spaces), "8 KiB and one byte")
	short := spaces[:len(spaces)-len("10.0.0.2")]
	assert.Equal(t, "1.2.3.4", at("1.2.3.4", "10.0.0.2"+short), "8 KiB in two lines")
	assert.Equal(t, "10.0.0.2", at("1.2.3.4 ", "10.0.0.2"+short), "8 KiB and one byte in two lines")

	src = &Source{Header: "Forwarded", Trusted: proxies}
	at = func(lines ...string) string { return text(src.Addr(request(proxy, "Forwarded", lines...))) }
	assert.Equal(t, "10.0.0.1", at(`for=1.2.3.4;by="`+strings.Repeat(`\`, 1<<20)+`"`), "a megabyte of backslashes")
	assert.Equal(t, "10.0.0.1", at(`for=1.2.3.4;by="`+strings.Repeat(`,`, 1<<20)+`"`), "a megabyte of commas")
}

func TestKey(t *testing.T) {
	place := netip.MustParseAddr("::1")
	for _, c := range []struct {
		name, peer string
		src        *Source
		want       string
	}{
		{"IPv4", "203.0.113.7:1", nil, "203.0.113.7"},
		{"IPv6", "[2001:db8:1:2:3:4:5:6]:1", nil, "2001:db8:1:2::/64"},
		{"its neighbour", "[2001:db8:1:2:ffff::]:1", nil, "2001:db8:1:2::/64"},
		{"another network", "[2001:db8:1:3::]:1", nil, "2001:db8:1:3::/64"},
		{"mapped", "[::ffff:203.0.113.7]:1", nil, "203.0.113.7"},
		{"mapped, another", "[::ffff:203.0.113.8]:1", nil, "203.0.113.8"},
		{"zone", "[fe80::1%eth0]:1", nil, "fe80::/64"},
		{"/56", "[2001:db8:1:2ff::]:1", &Source{V6Bits: 56}, "2001:db8:1:200::/56"},
		{"/48", "[2001:db8:1:2ff::]:1", &Source{V6Bits: 48}, "2001:db8:1::/48"},
		{"whole", "[2001:db8::1]:1", &Source{V6Bits: -1}, "2001:db8::1"},
		{"/128", "[2001:db8::1]:1", &Source{V6Bits: 128}, "2001:db8::1"},
		{"/24", "203.0.113.7:1", &Source{V4Bits: 24}, "203.0.113.0/24"},
		{"whole IPv4", "203.0.113.7:1", &Source{V4Bits: -1}, "203.0.113.7"},
		{"6to4", "[2002:cb00:7107::1]:1", &Source{}, "2002:cb00:7107::/64"},
		{"6to4 within", "[2002:cb00:7107::1]:1", &Source{Embedded: true}, "203.0.113.7"},
		{"NAT64", "[64:ff9b::203.0.113.7]:1", &Source{}, "64:ff9b::/64"},
		{"NAT64 within", "[64:ff9b::203.0.113.7]:1", &Source{Embedded: true}, "203.0.113.7"},
		{"Teredo within", "[2001::1:34ff:8ef8]:1", &Source{Embedded: true}, "203.0.113.7"},
		{"nothing within", "[2001:db8::1]:1", &Source{Embedded: true}, "2001:db8::/64"},
		{"nothing within IPv4", "203.0.113.7:1", &Source{Embedded: true}, "203.0.113.7"},
		{"socket", "@", nil, "local"},
		{"socket, placeholder", "@", &Source{Placeholder: place}, "::/64"},
		{"socket, mapped placeholder", "@", &Source{Placeholder: netip.MustParseAddr("::ffff:127.0.0.1%lo")}, "127.0.0.1"},
		{"socket, placeholder with a zone", "@", &Source{Placeholder: place.WithZone("lo"), V6Bits: -1}, "::1"},
		{"longest", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:1", &Source{V6Bits: 127}, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"},
	} {
		require.NoError(t, c.src.Check(), c.name)
		assert.Equal(t, c.want, c.src.Key(request(c.peer, xff)), c.name)
		assert.LessOrEqual(t, len(c.want), maxKey, c.name)
	}
}

func TestCheck(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, c := range []struct {
		name string
		src  Source
		want string // part of the error; empty: none
	}{
		{"zero", Source{}, ""},
		{"prefixes", Source{Header: xff, Trusted: proxies}, ""},
		{"hops", Source{Header: "forwarded", Hops: 32}, ""},
		{"socket", Source{Header: "X-Real-IP", TrustLocal: true}, ""},
		{"header without trust", Source{Header: xff}, "nobody is trusted"},
		{"trust without header", Source{Trusted: proxies}, "no Header"},
		{"hops without header", Source{Hops: 1}, "no Header"},
		{"socket without header", Source{TrustLocal: true}, "no Header"},
		{"both", Source{Header: xff, Trusted: proxies, Hops: 1}, "one way"},
		{"negative hops", Source{Header: xff, Hops: -1}, "Hops is -1"},
		{"many hops", Source{Header: xff, Hops: 33}, "Hops is 33"},
		{"everybody", Source{Header: xff, Trusted: []netip.Prefix{prefix("0.0.0.0/0")}}, "trusts everybody"},
		{"everybody, IPv6", Source{Header: xff, Trusted: []netip.Prefix{prefix("::/0")}}, "trusts everybody"},
		{"invalid prefix", Source{Header: xff, Trusted: []netip.Prefix{{}}}, "invalid prefix"},
		{"mapped prefix", Source{Header: xff, Trusted: []netip.Prefix{prefix("::ffff:10.0.0.0/104")}}, "as IPv4"},
		{"two headers", Source{Header: "X-Forwarded-For, Forwarded", Hops: 1}, "no name of a header"},
		{"long IPv4 network", Source{V4Bits: 33}, "V4Bits is 33"},
		{"long IPv6 network", Source{V6Bits: 129}, "V6Bits is 129"},
	} {
		err := c.src.Check()
		if c.want == "" {
			assert.NoError(t, err, c.name)
			continue
		}
		assert.ErrorContains(t, err, c.want, c.name)
		assert.ErrorContains(t, err, "clientip: ", c.name)

		// A client cannot take advantage of a fault.
		for header, value := range map[string]string{xff: "10.1.1.1, 10.1.1.2", "Forwarded": "for=10.1.1.1", "X-Real-IP": "10.1.1.1"} {
			for _, peer := range []string{"203.0.113.9", "10.9.9.9", "2001:db8::9"} {
				assert.Equal(t, peer, c.src.Addr(request(net.JoinHostPort(peer, "1"), header, value)).String(), c.name)
			}
		}
	}
	assert.NoError(t, (*Source)(nil).Check())
}

func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		name string
		src  *Source
		r    *http.Request
	}{
		{"connection", nil, request("203.0.113.7:1234", xff, "8.8.8.8")},
		{"connection, IPv6 with a zone", nil, request("[fe80::1%eth0]:1234", xff)},
		{"stranger", &Source{Header: xff, Trusted: proxies}, request("203.0.113.7:1234", xff, "8.8.8.8")},
		{"list", &Source{Header: xff, Trusted: proxies}, request(proxy, xff, "8.8.8.8, 203.0.113.7, 10.0.0.2")},
		{"hops", &Source{Header: xff, Hops: 2}, request(proxy, xff, "8.8.8.8, 203.0.113.7, 10.0.0.2")},
		{"forwarded", &Source{Header: "Forwarded", Trusted: proxies}, request(proxy, "Forwarded", `for="[2001:db8::1]:99";proto=https, for=10.0.0.2`)},
		{"single", &Source{Header: "X-Real-Ip", Trusted: proxies}, request(proxy, "X-Real-IP", "203.0.113.7")},
	} {
		assert.Zero(t, testing.AllocsPerRun(100, func() { c.src.Addr(c.r) }), c.name)
		buf := make([]byte, 0, maxKey)
		assert.Zero(t, testing.AllocsPerRun(100, func() { c.src.AppendKey(buf, c.r) }), c.name)
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { c.src.Key(c.r) }), 1.0, c.name)
	}
}
