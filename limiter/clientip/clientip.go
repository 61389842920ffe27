// Package clientip finds the address of the client of an HTTP request.
//
// Without a proxy in front, that is the address of the connection, and the
// zero [Source], or a nil one, gives it. Behind a proxy the connection is the
// proxy's, and the client's address is in a header that anybody may write:
//
//	client writes:   X-Forwarded-For: 8.8.8.8                       a lie
//	proxy appends:   X-Forwarded-For: 8.8.8.8, 203.0.113.7          the truth, at the right end
//
// So a header is read from its right end, and only as far as the elements were
// written by a proxy that is trusted. [Source] says which header that is and
// who is trusted, in one of two ways:
//
//	Trusted  prefixes of the proxies' addresses   known addresses; the chain may vary in length
//	Hops     how many proxies there always are    unknown or changing addresses; nobody can reach
//	                                              the server but through all of them
//
// There is one header, and no second to fall back to: a header that the proxy
// does not set is set by the client.
//
// # How a header is read
//
// With Trusted: as long as the address at hand is a trusted proxy's, which
// begins with the connection's, the next element to the left is the address
// that this proxy saw. The first one that is not trusted is the client. A list
// that ends before is an internal caller's: its leftmost element is the client.
// With Hops: the element that the outermost of so many proxies wrote.
//
// An element that cannot be read ends the walk, and nothing to its left is
// looked at: the client is then the last address that a trusted proxy vouched
// for, or with Hops the connection's. Requests that share a broken proxy share
// an address, and so a limit: a spoofed header cannot win one of its own.
//
//	X-Forwarded-For  list   1.2.3.4   1.2.3.4:99   2001:db8::1   [2001:db8::1]   [2001:db8::1]:99
//	Forwarded        list   for=1.2.3.4   for="1.2.3.4:99"   for="[2001:db8::1]:_port";proto=https   (RFC 7239)
//	any other        one    as X-Forwarded-For, a single element on a single line
//
// Elements may have a zone, which is dropped, since it is free for the client
// to choose. Addresses with leading zeros, the unspecified addresses 0.0.0.0
// and ::, names, "unknown" and empty elements cannot be read. Of one request at
// most 32 elements and 8 KiB are looked at, from the right.
//
// # Keys
//
// A client of IPv6 is given a whole network, seldom less than a /64, and may
// change its address at will within it. [Source.Key] therefore is the network
// of V6Bits for IPv6, and the whole address for IPv4. An IPv4 address written
// as IPv6 (::ffff:1.2.3.4) is the IPv4 address.
package clientip

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Source says where the client's address is to be found. Its zero value, and a
// nil *Source, mean the connection's address. Fields must not change after
// first use; a Source may be used by many goroutines at once.
type Source struct {
	// Header is the header in which the proxies hand on the client's address:
	// X-Forwarded-For, Forwarded, or one with a single address, such as
	// X-Real-IP or CF-Connecting-IP. The proxies must set it or append to it,
	// on every request. Empty: none is read.
	Header string

	// Trusted are the proxies. A header is read only from a connection that
	// comes from one of them. Either Trusted or Hops is set, not both.
	Trusted []netip.Prefix

	// Hops is the number of proxies between the clients and this server, all of
	// which append to the header. Zero: Trusted says who is a proxy. At most 32.
	Hops int

	// TrustLocal says that a connection without an address, which is one on a
	// Unix socket, comes from a proxy. Without it such a connection is its own
	// client, also with Hops.
	TrustLocal bool

	// Placeholder stands for the address of a connection that has none. Zero:
	// Addr returns the zero netip.Addr and Key returns "local".
	Placeholder netip.Addr

	// V4Bits and V6Bits are the lengths of the networks that Key tells apart.
	// Zero: 32 and 64. Negative: the whole address.
	V4Bits, V6Bits int

	// Embedded says that Key takes an IPv6 address of a transition mechanism
	// for the IPv4 address within: 6to4 (2002::/16), Teredo (2001::/32) and
	// NAT64 (64:ff9b::/96). Without it all clients behind one NAT64 share a /64.
	Embedded bool

	// Unreadable, if set, is called when a proxy's header has no address where
	// there should be one: a proxy that is set up wrongly, or a wrong Hops. It
	// must return soon.
	Unreadable func(*http.Request)
}

// Check says what is wrong with the Source; nil if nothing is. A Source with a
// fault takes the connection's address for the client's.
func (s *Source) Check() error {
	if s == nil {
		return nil
	}
	for _, p := range s.Trusted {
		switch {
		case !p.IsValid():
			return fmt.Errorf("clientip: Trusted has an invalid prefix; use netip.MustParsePrefix")
		case p.Bits() == 0:
			return fmt.Errorf("clientip: Trusted has %v, which trusts everybody, and so whatever a client writes", p)
		case p.Addr().Is4In6():
			return fmt.Errorf("clientip: Trusted has %v; write IPv4 prefixes as IPv4", p)
		}
	}
	switch {
	case s.Hops < 0 || s.Hops > maxElements:
		return fmt.Errorf("clientip: Hops is %d; allowed are 0 (off) to %d", s.Hops, maxElements)
	case s.V4Bits > 32:
		return fmt.Errorf("clientip: V4Bits is %d; allowed are up to 32", s.V4Bits)
	case s.V6Bits > 128:
		return fmt.Errorf("clientip: V6Bits is %d; allowed are up to 128", s.V6Bits)
	case s.Header != "" && !isToken(s.Header):
		return fmt.Errorf("clientip: Header is %q, which is no name of a header", s.Header)
	case s.Hops > 0 && len(s.Trusted) > 0:
		return fmt.Errorf("clientip: Hops and Trusted are both set; who is a proxy must be said in one way")
	case s.Header == "" && s.proxied():
		return fmt.Errorf("clientip: proxies are trusted and no Header is named in which they hand on the client's address")
	case s.Header != "" && !s.proxied():
		return fmt.Errorf("clientip: Header is %s and nobody is trusted to set it; set Trusted, Hops or TrustLocal", s.Header)
	}
	return nil
}

// proxied reports whether anybody is trusted.
func (s *Source) proxied() bool { return len(s.Trusted) > 0 || s.Hops > 0 || s.TrustLocal }

// Addr returns the client's address, without zone, and as IPv4 if it is one
// mapped to IPv6. It is the zero netip.Addr, or Placeholder, for a client that
// is known by a connection without address only.
func (s *Source) Addr(r *http.Request) netip.Addr {
	peer, hasAddr := parseNode(r.RemoteAddr)
	if s == nil {
		return peer
	}
	if !hasAddr {
		peer = s.Placeholder.WithZone("").Unmap()
	}
	if s.Header == "" || !s.trusts(peer, hasAddr) || s.Check() != nil {
		return peer
	}
	addr, ok := s.fromHeader(peer, r.Header)
	if !ok && s.Unreadable != nil {
		s.Unreadable(r)
	}
	return addr
}

// trusts reports whether the connection comes from a proxy.
func (s *Source) trusts(peer netip.Addr, hasAddr bool) bool {
	switch {
	case !hasAddr:
		return s.TrustLocal
	case s.Hops > 0:
		return true
	}
	return s.trusted(peer)
}

// trusted reports whether a is the address of a proxy.
func (s *Source) trusted(a netip.Addr) bool {
	for _, p := range s.Trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// fromHeader walks the header from its right end. It reports false if there was
// no address where one should be.
func (s *Source) fromHeader(peer netip.Addr, h http.Header) (netip.Addr, bool) {
	lines := h[http.CanonicalHeaderKey(s.Header)]
	w := walk{lines: lines, bytes: maxBytes, elements: maxElements}
	switch {
	case strings.EqualFold(s.Header, "X-Forwarded-For"):
	case strings.EqualFold(s.Header, "Forwarded"):
		w.forwarded = true
	default:
		return single(peer, lines)
	}
	if s.Hops > 0 {
		return w.hop(peer, s.Hops)
	}
	return w.client(peer, s.trusted)
}

// single reads a header that holds one address.
func single(peer netip.Addr, lines []string) (netip.Addr, bool) {
	if len(lines) == 0 {
		return peer, true
	}
	if len(lines) == 1 {
		if a, ok := parseNode(trimSpace(lines[0])); ok {
			return a, true
		}
	}
	return peer, false
}
