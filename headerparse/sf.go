package headerparse

// A strict reader of the Lists of RFC 9651 section 3.1, and of the Dictionary
// that draft -07 of the RateLimit field was. A field is read as a whole: one
// wrong byte and it tells nothing. Values that no limit needs are checked and
// skipped, inner lists among them.

// An sfKind is the type of a bare item.
type sfKind uint8

const (
	sfNone sfKind = iota // an inner list, which has no value here
	sfInteger
	sfDecimal
	sfString
	sfToken
	sfBytes
	sfBoolean
	sfDate
	sfDisplay
)

// An sfValue is a bare item. Only integers and strings are decoded.
type sfValue struct {
	kind sfKind
	num  int64  // of sfInteger and sfDate
	text string // of sfString and sfToken
}

// An sfMember is one member of a list or a dictionary.
type sfMember struct {
	key    string // of a dictionary's member
	value  sfValue
	params string // as written, checked
}

// param finds the parameter that key names; of several, the last counts.
func (m sfMember) param(key string) (v sfValue, ok bool) {
	r := sfReader{s: m.params}
	for {
		k, value, more := r.param()
		if !more {
			return v, ok
		}
		if k == key {
			v, ok = value, true
		}
	}
}

// readList appends to dst the members of the list s, as far as dst has room,
// and reports whether all of s is a list.
func readList(s string, dst []sfMember) ([]sfMember, bool) {
	r := sfReader{s: s}
	return r.members(dst, false)
}

// readDict is readList for a dictionary. A key may come twice.
func readDict(s string, dst []sfMember) ([]sfMember, bool) {
	r := sfReader{s: s}
	return r.members(dst, true)
}

type sfReader struct {
	s   string
	i   int
	bad bool
}

func (r *sfReader) members(dst []sfMember, dict bool) ([]sfMember, bool) {
	r.blanks(false)
	for r.i < len(r.s) {
		m := r.member(dict)
		if r.bad {
			return dst, false
		}
		if len(dst) < cap(dst) {
			dst = append(dst, m)
		}
		r.blanks(true)
		if r.i == len(r.s) {
			return dst, true
		}
		if r.next() != ',' {
			return dst, false
		}
		if r.blanks(true); r.i == len(r.s) {
			return dst, false // a trailing comma
		}
	}
	return dst, true
}

func (r *sfReader) member(dict bool) (m sfMember) {
	if !dict {
		m.value = r.item()
	} else if m.key = r.key(); r.peek() == '=' {
		r.i++
		m.value = r.item()
	} else {
		m.value.kind = sfBoolean
	}
	m.params = r.params()
	return m
}

// item reads a bare item or an inner list, without the parameters that follow.
func (r *sfReader) item() sfValue {
	if r.peek() != '(' {
		return r.bare()
	}
	r.i++
	for {
		r.blanks(false)
		if r.peek() == ')' {
			r.i++
			return sfValue{}
		}
		r.bare()
		r.params()
		if c := r.peek(); r.bad || c != ' ' && c != ')' {
			return r.fail()
		}
	}
}

// params checks the parameters that follow an item and returns them as written.
func (r *sfReader) params() string {
	from := r.i
	for {
		if _, _, more := r.param(); !more {
			return r.s[from:r.i]
		}
	}
}

func (r *sfReader) param() (key string, v sfValue, more bool) {
	if r.bad || r.peek() != ';' {
		return "", v, false
	}
	r.i++
	r.blanks(false)
	key, v = r.key(), sfValue{kind: sfBoolean}
	if r.peek() == '=' {
		r.i++
		v = r.bare()
	}
	return key, v, !r.bad
}

func (r *sfReader) key() string {
	from := r.i
	if c := r.peek(); c != '*' && (c < 'a' || c > 'z') {
		r.fail()
		return ""
	}
	for isKeyByte(r.peek()) {
		r.i++
	}
	return r.s[from:r.i]
}

func isKeyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || isDigit(c) || c == '_' || c == '-' || c == '.' || c == '*'
}

func (r *sfReader) bare() sfValue {
	switch c := r.peek(); {
	case c == '-' || isDigit(c):
		return r.number()
	case c == '"':
		return r.str()
	case c == '*' || isAlpha(c):
		return r.token()
	case c == ':':
		return r.bytes()
	case c == '?':
		return r.boolean()
	case c == '@':
		r.i++
		if v := r.number(); v.kind == sfInteger {
			return sfValue{kind: sfDate, num: v.num}
		}
	case c == '%':
		return r.display()
	}
	return r.fail()
}

// number reads an Integer of up to 15 digits or a Decimal of up to 12 and 3:
// RFC 9651 section 4.2.4.
func (r *sfReader) number() sfValue {
	v := sfValue{kind: sfInteger}
	sign := int64(1)
	if r.peek() == '-' {
		sign = -1
		r.i++
	}
	from := r.i
	for ; isDigit(r.peek()) && r.i-from <= 15; r.i++ {
		v.num = v.num*10 + int64(r.peek()-'0')
	}
	whole := r.i - from
	v.num *= sign
	if whole == 0 || whole > 15 {
		return r.fail()
	}
	if r.peek() != '.' {
		return v
	}
	r.i++
	from = r.i
	for isDigit(r.peek()) && r.i-from <= 3 {
		r.i++
	}
	if n := r.i - from; whole > 12 || n < 1 || n > 3 {
		return r.fail()
	}
	return sfValue{kind: sfDecimal}
}

// str reads a String. Only one with escapes is copied.
func (r *sfReader) str() sfValue {
	r.i++
	from := r.i
	var unescaped []byte
	for {
		switch c := r.next(); {
		case c == '"':
			if unescaped == nil {
				return sfValue{kind: sfString, text: r.s[from : r.i-1]}
			}
			return sfValue{kind: sfString, text: string(unescaped)}
		case c == '\\':
			if unescaped == nil {
				unescaped = append(make([]byte, 0, len(r.s)-from), r.s[from:r.i-1]...)
			}
			if c = r.next(); c != '"' && c != '\\' {
				return r.fail()
			}
			unescaped = append(unescaped, c)
		case c < 0x20 || c > 0x7e: // the end of input too
			return r.fail()
		case unescaped != nil:
			unescaped = append(unescaped, c)
		}
	}
}

func (r *sfReader) token() sfValue {
	from := r.i
	for isTokenByte(r.peek()) {
		r.i++
	}
	return sfValue{kind: sfToken, text: r.s[from:r.i]}
}

func isTokenByte(c byte) bool {
	if isAlpha(c) || isDigit(c) {
		return true
	}
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~', ':', '/':
		return true
	}
	return false
}

// bytes checks a Byte Sequence's alphabet and that its length can be base64.
// Missing padding and pad bits that are not zero are taken, as RFC 9651
// section 4.2.7 advises; the draft's own examples have them.
func (r *sfReader) bytes() sfValue {
	r.i++
	digits, pads := 0, 0
	for {
		switch c := r.next(); {
		case c == ':':
			if digits%4 == 1 || pads > 0 && (digits+pads)%4 != 0 || pads > 2 {
				return r.fail()
			}
			return sfValue{kind: sfBytes}
		case c == '=':
			pads++
		case pads == 0 && (isAlpha(c) || isDigit(c) || c == '+' || c == '/'):
			digits++
		default:
			return r.fail()
		}
	}
}

func (r *sfReader) boolean() sfValue {
	r.i++
	if c := r.next(); c != '0' && c != '1' {
		return r.fail()
	}
	return sfValue{kind: sfBoolean}
}

// display checks a Display String, section 4.2.10: ASCII, and the rest as %
// and two lower-case hexadecimal digits, which together must be UTF-8.
func (r *sfReader) display() sfValue {
	r.i++
	if r.next() != '"' {
		return r.fail()
	}
	var u utf8Check
	for {
		switch c := r.next(); {
		case c == '"':
			if !u.complete() {
				return r.fail()
			}
			return sfValue{kind: sfDisplay}
		case c == '%':
			hi, lo := unhex(r.next()), unhex(r.next())
			if hi < 0 || lo < 0 || !u.add(byte(hi<<4|lo)) {
				return r.fail()
			}
		case c < 0x20 || c > 0x7e || !u.add(c):
			return r.fail()
		}
	}
}

func unhex(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

// peek is the byte at hand, and next takes it; at the end both are 0, which no
// rule accepts.
func (r *sfReader) peek() byte {
	if r.i < len(r.s) {
		return r.s[r.i]
	}
	return 0
}

func (r *sfReader) next() byte {
	c := r.peek()
	if r.i < len(r.s) {
		r.i++
	}
	return c
}

func (r *sfReader) blanks(tabs bool) {
	for c := r.peek(); c == ' ' || c == '\t' && tabs; c = r.peek() {
		r.i++
	}
}

func (r *sfReader) fail() sfValue {
	r.bad = true
	return sfValue{}
}
