package clientip

import (
	"net/http"
	"net/netip"
)

// Key returns the client's network as text, such as 203.0.113.7 or
// 2001:db8:0:1::/64. It is never empty: all clients without an address share
// the key "local", or Placeholder's.
func (s *Source) Key(r *http.Request) string {
	return string(s.AppendKey(make([]byte, 0, maxKey), r))
}

// maxKey is the longest key: eight groups of four digits, a slash and 128.
const maxKey = 39 + 4

// AppendKey appends to b what Key returns.
func (s *Source) AppendKey(b []byte, r *http.Request) []byte {
	a := s.Addr(r)
	if !a.IsValid() {
		return append(b, "local"...)
	}
	if s == nil {
		s = &Source{}
	}
	if s.Embedded {
		a = embedded(a)
	}
	bits := s.V4Bits
	if a.Is6() {
		bits = s.V6Bits
		if bits == 0 {
			bits = 64
		}
	}
	if bits <= 0 || bits >= a.BitLen() {
		return a.AppendTo(b)
	}
	return netip.PrefixFrom(a, bits).Masked().AppendTo(b)
}

var (
	sixToFour = netip.MustParsePrefix("2002::/16")    // RFC 3056: IPv4 after the prefix
	teredo    = netip.MustParsePrefix("2001::/32")    // RFC 4380: inverted, at the end
	nat64     = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: at the end
)

// embedded returns the IPv4 address of the client of a transition mechanism, or
// a itself.
func embedded(a netip.Addr) netip.Addr {
	b := a.As16()
	switch {
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:]))
	case teredo.Contains(a):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	return a
}
