package headerparse

// Field names are ASCII and their case means nothing, so these compare bytes.

// toLower is every byte in lower case.
var toLower = func() (to [256]byte) {
	for c := range to {
		to[c] = byte(c)
		if 'A' <= c && c <= 'Z' {
			to[c] |= 0x20
		}
	}
	return to
}()

func lower(c byte) byte { return toLower[c] }

// compareFold orders a and b as if both were in lower case.
func compareFold(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] == b[i] {
			continue
		}
		if x, y := lower(a[i]), lower(b[i]); x != y {
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

func equalFold(a, b string) bool { return len(a) == len(b) && hasPrefixFold(a, b) }

func hasPrefixFold(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if s[i] != prefix[i] && lower(s[i]) != lower(prefix[i]) {
			return false
		}
	}
	return true
}

func hasSuffixFold(s, suffix string) bool {
	return len(s) >= len(suffix) && hasPrefixFold(s[len(s)-len(suffix):], suffix)
}

// indexFold is where word, in lower case, begins in s, or -1.
func indexFold(s, word string) int {
	for i := 0; i+len(word) <= len(s); i++ {
		if hasPrefixFold(s[i:], word) {
			return i
		}
	}
	return -1
}

// appendLower appends s in lower case to dst.
func appendLower(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = append(dst, lower(s[i]))
	}
	return dst
}
