package headerparse

import (
	"math"
	"strings"
	"time"
)

// A number is a plain decimal number as limit fields write it, exact to nine
// decimals. A whole part over 64 bits saturates: it is beyond every use.
type number struct {
	whole uint64
	nano  uint32
}

// parseNumber reads digits, optionally with a fraction, and nothing else: no
// sign, exponent, hexadecimal, underscore, Inf or NaN, which the parsers of
// strconv accept and no field means. A minus is how servers write "no limit"
// or "not known", so a negative number is no number.
func parseNumber(s string) (n number, ok bool) {
	if s == "" || len(s) > 64 {
		return number{}, false
	}
	i := 0
	for ; i < len(s) && isDigit(s[i]); i++ {
		d := uint64(s[i] - '0')
		if n.whole > (math.MaxUint64-d)/10 {
			n.whole = math.MaxUint64
			continue
		}
		n.whole = n.whole*10 + d
	}
	if i == 0 {
		return number{}, false
	}
	if i == len(s) {
		return n, true
	}
	if s[i] != '.' || i+1 == len(s) {
		return number{}, false
	}
	scale := uint32(100_000_000)
	for i++; i < len(s); i++ {
		if !isDigit(s[i]) {
			return number{}, false
		}
		n.nano += uint32(s[i]-'0') * scale
		scale /= 10
	}
	return n, true
}

func (n number) float() float64 { return float64(n.whole) + float64(n.nano)/1e9 }

func (n number) zero() bool { return n.whole == 0 && n.nano == 0 }

// times is n units as a duration; false if that is over the horizon.
func (n number) times(unit time.Duration) (time.Duration, bool) {
	if n.whole > uint64(horizon/unit) {
		return 0, false
	}
	d := time.Duration(n.whole)*unit + time.Duration(float64(n.nano)*float64(unit)/1e9)
	if d > horizon {
		return 0, false
	}
	return d, true
}

// instant reads n as a time since 1970. How many digits there are says in
// which unit: seconds have ten, from 2001 to 2286, and each finer unit three
// more. Numbers between the bands are no instant.
func (n number) instant() (t time.Time, ok bool) {
	const s = 1_000_000_000
	w, frac := n.whole, float64(n.nano)/1e9
	switch {
	case w < s:
		return t, false
	case w < 10*s:
		return time.Unix(int64(w), int64(n.nano)), true
	case w >= 1e3*s && w < 10e3*s:
		return time.Unix(int64(w/1e3), int64(w%1e3)*1e6+int64(frac*1e6)), true
	case w >= 1e6*s && w < 10e6*s:
		return time.Unix(int64(w/1e6), int64(w%1e6)*1e3), true
	case w >= 1e9*s && w < 10e9*s:
		return time.Unix(int64(w/1e9), int64(w%1e9)), true
	}
	return t, false
}

// count reads a counter: a quota or what is left of it.
func count(s string) (float64, bool) {
	n, ok := parseNumber(bare(s))
	if !ok {
		return Unknown, false
	}
	return n.float(), true
}

// bare is s without blanks around it and without one pair of quotes.
func bare(s string) string {
	s = trim(s)
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	return s
}

func trim(s string) string { return strings.Trim(s, " \t") }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
