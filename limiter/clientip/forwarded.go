package clientip

import (
	"net/netip"
	"strings"
)

// parseForwarded reads one element of a Forwarded header (RFC 7239, section 4),
// strictly: pairs of token and value, with a semicolon between two, white space
// beside it at most; exactly one pair is named for. What the others say is not
// looked at.
func parseForwarded(s string) (addr netip.Addr, ok bool) {
	found := false
	for {
		name, rest := cutToken(trimLeft(s))
		if name != "" { // an empty pair is allowed
			if rest == "" || rest[0] != '=' {
				return netip.Addr{}, false
			}
			var value string
			if value, rest, ok = cutValue(rest[1:]); !ok {
				return netip.Addr{}, false
			}
			if strings.EqualFold(name, "for") {
				if found {
					return netip.Addr{}, false
				}
				if addr, found = parseForwardedNode(value); !found {
					return netip.Addr{}, false
				}
			}
		}
		rest = trimLeft(rest)
		if rest == "" {
			return addr, found
		}
		if rest[0] != ';' {
			return netip.Addr{}, false
		}
		s = rest[1:]
	}
}

// parseForwardedNode reads a node of RFC 7239, section 6: an IPv6 address is in
// brackets, and a port may be obfuscated.
func parseForwardedNode(s string) (netip.Addr, bool) {
	if s == "" || len(s) > maxNode {
		return netip.Addr{}, false
	}
	if s[0] == '[' {
		inside, port, ok := cutBracket(s)
		if !ok || port != "" && !isForwardedPort(port) {
			return netip.Addr{}, false
		}
		return parse6(inside)
	}
	host, port, hasPort := strings.Cut(s, ":")
	if hasPort && !isForwardedPort(port) {
		return netip.Addr{}, false
	}
	return parse4(host)
}

// isForwardedPort reports whether s is a port or an obfuscated one.
func isForwardedPort(s string) bool {
	if s == "" || s[0] != '_' {
		return isPort(s)
	}
	for i := 1; i < len(s); i++ {
		if !isAlnum(s[i]) && strings.IndexByte("._-", s[i]) < 0 {
			return false
		}
	}
	return len(s) > 1
}

// cutToken splits the token off with which s begins; it is empty if s begins
// with none.
func cutToken(s string) (token, rest string) {
	i := 0
	for i < len(s) && tokenBytes[s[i]] {
		i++
	}
	return s[:i], s[i:]
}

// cutValue splits a token or a quoted string off, unquoted.
func cutValue(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		value, rest = cutToken(s)
		return value, rest, value != ""
	}
	s = s[1:]
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[:i], s[i+1:], true
		case c == '\\':
			return cutEscaped(s, i)
		case c != '\t' && (c < ' ' || c == 0x7f):
			return "", "", false
		}
	}
	return "", "", false
}

// cutEscaped is cutValue within a quoted string that has an escape at i.
func cutEscaped(s string, i int) (value, rest string, ok bool) {
	b := make([]byte, 0, 64)
	b = append(b, s[:i]...)
	for ; i < len(s); i++ {
		c := s[i]
		if c == '"' {
			return string(b), s[i+1:], true
		}
		if c == '\\' {
			if i++; i == len(s) {
				return "", "", false
			}
			c = s[i]
		}
		if c != '\t' && (c < ' ' || c == 0x7f) {
			return "", "", false
		}
		b = append(b, c)
	}
	return "", "", false
}

func trimLeft(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}
