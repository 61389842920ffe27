package headerparse

import (
	"net/http"
	"slices"
	"strings"
)

const (
	maxName   = 96   // bytes of a field's name; longer ones are not read
	maxFields = 64   // limit fields that are read: the first in order of name
	maxLines  = 8    // lines of one field
	maxValue  = 8192 // bytes of a line, and of the lines of a list together
	maxLimits = 32   // in a Signal
	maxText   = 128  // bytes of a limit's name or unit

	lastRank = 255 // of advice that has no row of its own
)

// A field is a limit field as sent, with its name taken apart. The parts are
// substrings of the name or of the table.
type field struct {
	name  string
	lines []string
	row   *dialect
	stem  string // whose limits: "X-Ratelimit"
	scope string // what the stem itself names: "user"
	limit string // which of them: "Tokens"; empty for the only one
	role  role
	unit  unit
	rank  uint8 // of advice: the lower is heard first
}

// mightTell is the filter before everything else: false for nearly every
// field that has nothing to do with limits, and never for one that has.
//
// It looks for "limit" as Horspool does, at the end of the word first, and so
// reads about every fifth byte, from the seventh on: nothing shorter than
// "x-limit" comes before. The few names without that word begin with r or x.
func mightTell(name string) bool {
	if len(name) < len("x-limit") || len(name) > maxName {
		return false
	}
	for i := len("x-limit") - 1; i < len(name); {
		n := skip[name[i]]
		if n == 0 {
			if hasPrefixFold(name[i-4:], "limit") {
				return true
			}
			n = 5
		}
		i += int(n)
	}
	switch name[0] {
	case 'r', 'R':
		return hasPrefixFold(name, "retry-after") // and ratelimit, rate-limit
	case 'x', 'X':
		i := spareIndex(name)
		return spareAt[i/64]&(1<<(i%64)) != 0 && isSpare(name)
	}
	return false
}

func isSpare(name string) bool {
	for _, stem := range spare {
		if hasPrefixFold(name, stem) {
			return true
		}
	}
	return false
}

// skip is how far "limit" can begin behind a byte that is no end of it.
var skip = func() (skip [256]uint8) {
	for c := range skip {
		skip[c] = 5
		if at := strings.LastIndexByte("limi", lower(byte(c))); at >= 0 {
			skip[c] = uint8(4 - at)
		}
	}
	skip['t'], skip['T'] = 0, 0
	return skip
}()

// classify finds the dialect of a name and takes the name apart.
func classify(name string) (f field, ok bool) {
	if !isName(name) {
		return f, false
	}
	f.name, f.rank = name, lastRank
	for i := range dialects {
		if d := &dialects[i]; hasPrefixFold(name, d.stem) && f.fits(d, uint8(i)) {
			return f, true
		}
	}
	for _, word := range [...]string{"ratelimit", "rate-limit"} {
		i := indexFold(name, word)
		if i < 0 {
			continue
		}
		end := i + len(word)
		if hasPrefixFold(name[end:], "s-") || hasPrefixFold(name[end:], "s") && end+1 == len(name) {
			end++
		}
		if end < len(name) && name[end] != '-' {
			continue
		}
		f.row, f.stem = &anyVendor, name[:end]
		prefix := strings.TrimSuffix(name[:i], "-")
		if hasPrefixFold(prefix, "x-") {
			prefix = prefix[2:]
		}
		if isScope(prefix) {
			f.scope = prefix
		}
		f.role, f.limit, f.unit = readWords(strings.TrimPrefix(name[end:], "-"))
		return f, f.role != noRole
	}
	return f, false
}

// isName reports whether name is one that net/http would let through.
func isName(name string) bool {
	for i := range len(name) {
		if !nameByte[name[i]] {
			return false
		}
	}
	return true
}

// nameByte has the bytes of RFC 9110 section 5.1: a token.
var nameByte = func() (is [256]bool) {
	for c := range is {
		is[c] = isTokenByte(byte(c)) && c != ':' && c != '/'
	}
	return is
}()

// fits reads the name, which begins with the stem of d, as d's. rank is the
// row of d.
func (f *field) fits(d *dialect, rank uint8) bool {
	rest := f.name[len(d.stem):]
	switch {
	case rest == "":
	case d.exact || rest[0] != '-' || rest == "-":
		return false
	default:
		rest = rest[1:]
	}
	f.row, f.stem, f.role, f.limit, f.unit = d, f.name[:len(d.stem)], roleQuota, "", d.reset
	switch {
	case d.ends != nil:
		for _, e := range d.ends {
			if equalFold(rest, e.text) {
				f.role, f.limit = e.role, e.name
				if _, u := cutUnit(rest); u != byValue {
					f.unit = u
				}
				return true
			}
		}
		return false
	case d.syntax == advice:
		f.role = roleRetry
		f.rank = rank
	case d.syntax != counters:
		f.limit = rest
	default:
		var u unit
		f.role, f.limit, u = readWords(rest)
		if u != byValue {
			f.unit = u
		}
		return f.role != noRole
	}
	return true
}

// collect finds the limit fields of h in an order that depends neither on the
// map nor on the case of names, and the clock fields beside them.
func collect(h http.Header, fields []field) (_ []field, date, age string) {
	for name, lines := range h {
		if len(lines) == 0 {
			continue
		}
		switch {
		case equalFold(name, "date"):
			date = least(date, lines[0])
		case equalFold(name, "age"):
			age = least(age, lines[0])
		case mightTell(name):
			f, ok := classify(name)
			if !ok {
				continue
			}
			f.lines = lines[:min(len(lines), maxLines)]
			fields = insert(fields, &f)
		}
	}
	return fields, date, age
}

// insert puts f in its place. When there is no more room the last one goes.
func insert(fields []field, f *field) []field {
	at := len(fields)
	for at > 0 && f.compare(&fields[at-1]) < 0 {
		at--
	}
	if len(fields) < maxFields {
		fields = append(fields, field{})
	} else if at == maxFields {
		return fields
	}
	copy(fields[at+1:], fields[at:])
	fields[at] = *f
	return fields
}

// compare orders fields by name. A map filled by hand can hold one name in
// two spellings; then the lines decide, so that the order is still the same.
func (f *field) compare(g *field) int {
	if c := compareFold(f.name, g.name); c != 0 {
		return c
	}
	return slices.Compare(f.lines, g.lines)
}

// least is the lesser of two values of a field that was sent under two
// spellings of its name.
func least(a, b string) string {
	if a == "" || b < a {
		return b
	}
	return a
}

// value is the first line of the field, which counts if two gateways both
// added theirs.
func (f *field) value() string {
	if len(f.lines[0]) > maxValue {
		return ""
	}
	return f.lines[0]
}
