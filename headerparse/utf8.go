package headerparse

import "unicode/utf8"

// A utf8Check checks bytes that come one by one, without keeping the text.
type utf8Check struct {
	buf [utf8.UTFMax]byte
	n   int
}

// add reports whether the bytes so far can still become UTF-8.
func (u *utf8Check) add(c byte) bool {
	u.buf[u.n] = c
	u.n++
	if !utf8.FullRune(u.buf[:u.n]) {
		return u.n < utf8.UTFMax
	}
	r, size := utf8.DecodeRune(u.buf[:u.n])
	ok := size == u.n && (r != utf8.RuneError || size > 1)
	u.n = 0
	return ok
}

// complete reports whether no rune is left half-written.
func (u *utf8Check) complete() bool { return u.n == 0 }
