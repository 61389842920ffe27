package clientip

import "net/netip"

// What is looked at of one request, from the right.
const (
	maxElements = 32
	maxBytes    = 8 << 10
)

// walk goes through the elements of a list header from its right end. Field
// lines count as one list (RFC 9110, 5.3), of which the last line is the right
// end.
type walk struct {
	lines     []string // not yet begun
	line      string   // what is left of the one under way
	more      bool     // whether an element is left in it; an empty one counts
	bytes     int      // that may still be looked at
	elements  int      // that may still be looked at
	forwarded bool     // RFC 7239
}

// client returns the first address from the right that is not trusted. Without
// one it returns the leftmost, and peer if there is none at all. It reports
// false if an element could not be read; the address is the last one before.
func (w *walk) client(peer netip.Addr, trusted func(netip.Addr) bool) (netip.Addr, bool) {
	for {
		element, found, ok := w.next()
		if !found {
			return peer, ok
		}
		a, ok := w.parse(element)
		if !ok {
			return peer, false
		}
		if peer = a; !trusted(a) {
			return a, true
		}
	}
}

// hop returns the n-th address from the right, or peer and false.
func (w *walk) hop(peer netip.Addr, n int) (netip.Addr, bool) {
	var a netip.Addr
	for range n {
		element, found, _ := w.next()
		if !found {
			return peer, false
		}
		var ok bool
		if a, ok = w.parse(element); !ok {
			return peer, false
		}
	}
	return a, true
}

func (w *walk) parse(element string) (netip.Addr, bool) {
	if w.forwarded {
		return parseForwarded(element)
	}
	return parseNode(element)
}

// next returns the next element to the left. If none is found, ok says whether
// that is the end of the list; else there is one that is too far to be looked
// at.
func (w *walk) next() (element string, found, ok bool) {
	if !w.more {
		if len(w.lines) == 0 {
			return "", false, true
		}
		last := len(w.lines) - 1
		w.lines, w.line, w.more = w.lines[:last], w.lines[last], true
	}
	start := w.cut()
	if start < 0 || w.elements == 0 {
		return "", false, false
	}
	w.elements--
	w.bytes -= len(w.line) - start
	element = trimSpace(w.line[start:])
	if w.more = start > 0; w.more {
		w.line = w.line[:start-1]
	}
	return element, true, true
}

// cut returns where the rightmost element of the line begins, just right of a
// comma or at 0; −1 if that is farther than may be looked at.
//
// A quoted string is read from its right end too. What stands at the right was
// written by a proxy and is well-formed, so a client that leaves a quote open
// cannot swallow it, as it could if the line were read from the left. In what
// is well-formed a quote within quotes has a backslash before it, and one that
// opens them an equals sign; what is not is found out by parse.
func (w *walk) cut() int {
	quoted := false
	end := max(0, len(w.line)-w.bytes)
	for i := len(w.line) - 1; i >= end; i-- {
		switch c := w.line[i]; {
		case c == ',' && !quoted:
			return i + 1
		case c == '"' && w.forwarded:
			quoted = !quoted || i > 0 && w.line[i-1] == '\\'
		}
	}
	if end > 0 {
		return -1
	}
	return 0
}
