// Package segments counts what a text message costs: one short message on the
// radio is 140 bytes, and a longer text goes out, and is billed, as several.
//
//	alphabet   per character           one message   each part of several
//	GSM-7      7 bits, "€[]{}~\|^" 14   160           153
//	UCS-2      16 bits, emoji 32        70            67
//
// One character outside GSM-7 puts the whole text into UCS-2. Parts of several
// are smaller because each carries a header of 6 bytes that says how to join
// them. A character is never torn over two parts, so a part may end up one
// short (3GPP TS 23.038, sections 6.2.1 and 6.2.3; TS 23.040, section 9.2.3.24.1).
package segments

import "strings"

// Encoding is the alphabet that a text needs.
type Encoding string

// The two alphabets that phones have.
const (
	GSM7 Encoding = "GSM-7"
	UCS2 Encoding = "UCS-2"
)

// The characters of the default alphabet, and those of its extension table,
// which are sent as an escape and a second septet. The escape itself is no
// character.
const (
	basic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
		"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
	extension = "\f^{}\\[~]|€"
)

// width is how many septets each character of GSM-7 takes.
var width = func() map[rune]int {
	w := make(map[rune]int, len(basic))
	for _, r := range basic {
		w[r] = 1
	}
	for _, r := range extension {
		w[r] = 2
	}
	return w
}()

// Count is how many segments the text is billed as. An empty text is one.
func Count(text string) int64 { return int64(len(Split(text))) }

// Of is the alphabet that the text needs.
func Of(text string) Encoding {
	for _, r := range text {
		if width[r] == 0 {
			return UCS2
		}
	}
	return GSM7
}

// Split cuts the text into the parts that go out.
func Split(text string) []string {
	size, one, several := septets, 160, 153
	if Of(text) == UCS2 {
		size, one, several = units, 70, 67
	}
	total := 0
	for _, r := range text {
		total += size(r)
	}
	if total <= one {
		return []string{text}
	}
	var parts []string
	var part strings.Builder
	used := 0
	for _, r := range text {
		if used+size(r) > several {
			parts = append(parts, part.String())
			part.Reset()
			used = 0
		}
		part.WriteRune(r)
		used += size(r)
	}
	return append(parts, part.String())
}

func septets(r rune) int { return width[r] }

// units is the number of 16-bit units: two, a surrogate pair, beyond the basic
// plane.
func units(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}
