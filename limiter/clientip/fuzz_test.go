package clientip

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// naive is what an X-Forwarded-For header says, without regard to effort.
func naive(peer netip.Addr, lines []string, trusted func(netip.Addr) bool) netip.Addr {
	if !trusted(peer) || len(lines) == 0 {
		return peer
	}
	elements := strings.Split(strings.Join(lines, ","), ",")
	slices.Reverse(elements)
	for i, e := range elements {
		e = strings.Trim(e, " \t")
		zoned, err := netip.ParseAddr(e)
		if err != nil {
			var ap netip.AddrPort
			if ap, err = netip.ParseAddrPort(e); err != nil && strings.HasPrefix(e, "[") && strings.HasSuffix(e, "]") {
				ap, err = netip.ParseAddrPort(e + ":0")
			}
			zoned = ap.Addr()
		}
		a := zoned.WithZone("").Unmap()
		if err != nil || a.IsUnspecified() || i == maxElements {
			return peer
		}
		if peer = a; !trusted(a) {
			return a
		}
	}
	return peer
}

// FuzzAddr tries what a client may send through one proxy. Whatever it is:
//
//   - nothing panics, and the request stays as it is;
//   - X-Forwarded-For is read as naive reads it;
//   - a client that is not trusted stays the client whatever is put to its left;
//   - one more trusted proxy in between changes nothing.
func FuzzAddr(f *testing.F) {
	for _, s := range []string{
		"", ",", "1.2.3.4", "1.2.3.4:99", "[2001:db8::1]:99", "2001:db8::1%eth0", "8.8.8.8, 10.0.0.1", "1.2.3.4,",
		"10.0.0.1, 10.0.0.2", "::ffff:10.0.0.1, 10.0.0.2", "unknown, 10.0.0.9", "01.2.3.4", "::", strings.Repeat("10.0.0.9,", 40) + "10.0.0.8",
		`for=1.2.3.4`, `for="[2001:db8::1]:_x";proto=https, for=10.0.0.2`, `for="a\"b, for=10.0.0.2`, `for="\\", for="\""`,
	} {
		f.Add(s, "1.2.3.4", `8.8.8.8, "`, uint8(1))
		f.Add("8.8.8.8", s, `for="\`, uint8(2))
	}
	f.Fuzz(func(t *testing.T, line1, line2, left string, hops uint8) {
		for _, header := range []string{xff, "Forwarded", "X-Real-Ip"} {
			unread := false
			src := &Source{Header: header, Trusted: proxies, Unreadable: func(*http.Request) { unread = true }}
			lines := []string{line1, line2}
			r := request(proxy, header, lines...)
			got := src.Addr(r)
			peer := netip.MustParseAddr("10.0.0.1")
			if !slices.Equal(lines, r.Header[header]) {
				t.Fatalf("%s: %q became %q", header, lines, r.Header[header])
			}
			if !got.IsValid() || got.Zone() != "" || got.Is4In6() || got.IsUnspecified() {
				t.Fatalf("%s: %q: %v", header, lines, got)
			}
			if key := src.Key(r); key == "" || len(key) > maxKey {
				t.Fatalf("%s: %q: key %q", header, lines, key)
			}
			short := len(line1)+len(line2) < maxBytes
			if header == xff && short && !strings.ContainsAny(line1+line2, "%\"") {
				if want := naive(peer, lines, src.trusted); got != want {
					t.Fatalf("%q: %v, want %v", lines, got, want)
				}
			}
			if header == "X-Real-Ip" {
				if got != peer {
					t.Fatalf("two lines of one value: %v", got)
				}
				continue
			}
			if !src.trusted(got) {
				for _, more := range [][]string{{left, line1, line2}, {left + "," + line1, line2}} {
					if again := src.Addr(request(proxy, header, more...)); again != got {
						t.Fatalf("%s: %q to the left makes %v of %v", header, left, again, got)
					}
				}
			}
			if got != peer && !unread && short && src.Addr(request(proxy, header, line1, line2+between[header])) != got {
				if n := strings.Count(line1+line2, ","); n < maxElements-2 && len(line1)+len(line2)+20 < maxBytes {
					t.Fatalf("%s: a proxy in between makes another of %v", header, got)
				}
			}

			byHops := &Source{Header: header, Hops: int(hops%maxElements) + 1}
			got = byHops.Addr(r)
			again := byHops.Addr(request(proxy, header, left, line1, line2))
			if got != peer && got != again {
				t.Fatalf("%s, %d hops: %q to the left makes %v of %v", header, byHops.Hops, left, again, got)
			}
		}
	})
}

// between is what one more proxy appends.
var between = map[string]string{xff: ", 10.0.0.77", "Forwarded": `, for="10.0.0.77:1";proto=http`}
