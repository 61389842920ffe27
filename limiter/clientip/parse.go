package clientip

import (
	"net/netip"
	"strings"
)

// maxNode bounds an address with zone and port. The longest address has 45
// characters, and no system has zones of more than 16.
const maxNode = 96

// parseNode reads an address as proxies write it: IPv4, IPv6 with or without
// brackets, either with a port (IPv6 then in brackets), IPv6 with or without a
// zone, which is dropped.
func parseNode(s string) (netip.Addr, bool) {
	if s == "" || len(s) > maxNode {
		return netip.Addr{}, false
	}
	if s[0] == '[' {
		inside, port, ok := cutBracket(s)
		if !ok || port != "" && !isPort(port) {
			return netip.Addr{}, false
		}
		return parse6(inside)
	}
	colon := strings.IndexByte(s, ':')
	if colon >= 0 && strings.IndexByte(s[colon+1:], ':') >= 0 {
		return parse6(s)
	}
	if colon >= 0 {
		if !isPort(s[colon+1:]) {
			return netip.Addr{}, false
		}
		s = s[:colon]
	}
	return parse4(s)
}

// cutBracket splits [inside]:port; port is empty if there is none.
func cutBracket(s string) (inside, port string, ok bool) {
	end := strings.IndexByte(s, ']')
	if end < 0 {
		return "", "", false
	}
	inside, rest := s[1:end], s[end+1:]
	if rest == "" {
		return inside, "", true
	}
	if rest[0] != ':' || len(rest) == 1 {
		return "", "", false
	}
	return inside, rest[1:], true
}

func parse4(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() || a.IsUnspecified() {
		return netip.Addr{}, false
	}
	return a, true
}

// parse6 cuts the zone off before netip sees it: netip keeps every zone that it
// ever saw in a table, until nothing refers to it.
func parse6(s string) (netip.Addr, bool) {
	s, zone, zoned := strings.Cut(s, "%")
	if zoned && !isZone(zone) {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Unmap().IsUnspecified() {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// isPort reports whether s is a decimal number up to 65535.
func isPort(s string) bool {
	if s == "" || len(s) > 5 {
		return false
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n <= 65535
}

// isZone reports whether s may be the name of an interface (RFC 6874: letters,
// digits and -._~, or an escape of such).
func isZone(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isAlnum(s[i]) && strings.IndexByte("-._~%", s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// tokenBytes is tchar of RFC 9110, 5.6.2.
var tokenBytes = func() (t [256]bool) {
	for c := range t {
		t[c] = isAlnum(byte(c)) || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()

func isToken(s string) bool {
	_, rest := cutToken(s)
	return s != "" && rest == ""
}

// trimSpace removes optional white space (RFC 9110, 5.6.3).
func trimSpace(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
