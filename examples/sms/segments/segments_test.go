package segments_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/examples/sms/segments"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		enc  segments.Encoding
		want int64
	}{
		{"empty", "", segments.GSM7, 1},
		{"plain", "Your parcel arrives today.", segments.GSM7, 1},
		{"160 fit one", rep("a", 160), segments.GSM7, 1},
		{"161 need two", rep("a", 161), segments.GSM7, 2},
		{"306 are two full parts", rep("a", 306), segments.GSM7, 2},
		{"307 need three", rep("a", 307), segments.GSM7, 3},
		{"459 are three full parts", rep("a", 459), segments.GSM7, 3},
		{"accents of GSM-7", rep("äöüßéèàñÇ", 17) + "abcdefg", segments.GSM7, 1},
		{"Greek capitals of GSM-7", rep("ΔΦΓΛΩΠΨΣΘΞ", 16), segments.GSM7, 1},
		{"line breaks count one", rep("a", 158) + "\r\n", segments.GSM7, 1},
		{"80 euro signs count 160", rep("€", 80), segments.GSM7, 1},
		{"81 euro signs count 162", rep("€", 81), segments.GSM7, 2},
		{"a bracket at the limit", rep("a", 158) + "[", segments.GSM7, 1},
		{"a bracket over the limit", rep("a", 159) + "[", segments.GSM7, 2},
		{"every extension character", rep("^{}\\[~]|€\f", 8), segments.GSM7, 1},
		{"every extension character and one more", rep("^{}\\[~]|€\f", 8) + "a", segments.GSM7, 2},
		// A part holds 76 escape pairs (152), the 153rd septet stays empty.
		{"152 pairs are two parts", rep("€", 152), segments.GSM7, 2},
		{"153 pairs need three, for no pair is torn", rep("€", 153), segments.GSM7, 3},
		{"a pair over the seam moves on", rep("a", 152) + "€" + rep("a", 151), segments.GSM7, 2},
		{"and pushes one out", rep("a", 152) + "€" + rep("a", 152), segments.GSM7, 3},
		{"ç is not Ç", "ça va", segments.UCS2, 1},
		{"â is outside", "â", segments.UCS2, 1},
		{"Greek small letters are outside", "ω", segments.UCS2, 1},
		{"a backtick is outside", "`", segments.UCS2, 1},
		{"a tab is outside", "\t", segments.UCS2, 1},
		{"a typographic apostrophe is outside", "don’t", segments.UCS2, 1},
		{"the escape is no character", "\x1b", segments.UCS2, 1},
		{"70 fit one", rep("ł", 70), segments.UCS2, 1},
		{"71 need two", rep("ł", 71), segments.UCS2, 2},
		{"134 are two full parts", rep("ł", 134), segments.UCS2, 2},
		{"135 need three", rep("ł", 135), segments.UCS2, 3},
		{"one emoji makes all of it UCS-2", rep("a", 69) + "🎉", segments.UCS2, 2},
		{"35 emoji count 70", rep("🎉", 35), segments.UCS2, 1},
		{"36 emoji count 72", rep("🎉", 36), segments.UCS2, 2},
		// A part holds 33 surrogate pairs (66), the 67th unit stays empty.
		{"66 emoji are two parts", rep("🎉", 66), segments.UCS2, 2},
		{"67 emoji need three, for no pair is torn", rep("🎉", 67), segments.UCS2, 3},
		{"brackets count one in UCS-2", rep("€", 69) + "ł", segments.UCS2, 1},
		{"the basic plane's last", rep("\uffff", 70), segments.UCS2, 1},
		{"the first beyond", rep("\U00010000", 36), segments.UCS2, 2},
		{"broken UTF-8 is a replacement character", "\xff", segments.UCS2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.enc, segments.Of(c.text))
			assert.Equal(t, c.want, segments.Count(c.text))
		})
	}
}

func TestTheAlphabetIsComplete(t *testing.T) {
	n := 0
	for r := rune(0); r <= 0xFFFF; r++ {
		if segments.Of(string(r)) == segments.GSM7 {
			n++
		}
	}
	assert.Equal(t, 127+10, n, "128 septets without the escape, and the extension table")
}

// Whatever the text, the parts join to it and none is over its size: so no pair
// was torn, as a torn character would not survive the joining.
func FuzzSplit(f *testing.F) {
	f.Add("short")
	f.Add(rep("€", 200))
	f.Add(rep("a", 152) + rep("€", 100))
	f.Add(rep("a🎉", 60))
	f.Add(rep("🎉", 90))
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		parts := segments.Split(text)
		require.Equal(t, text, strings.Join(parts, ""))
		require.Equal(t, segments.Count(text), int64(len(parts)))
		enc := segments.Of(text)
		limit := map[segments.Encoding][2]int{segments.GSM7: {160, 153}, segments.UCS2: {70, 67}}[enc][min(len(parts)-1, 1)]
		for i, p := range parts {
			size := len(utf16.Encode([]rune(p)))
			if enc == segments.GSM7 {
				size = len([]rune(p))
				for _, r := range p {
					if strings.ContainsRune("\f^{}\\[~]|€", r) {
						size++
					}
				}
			}
			require.LessOrEqual(t, size, limit)
			if i < len(parts)-1 {
				require.GreaterOrEqual(t, size, limit-1, "a part is full, or one short for a pair")
			}
		}
	})
}

func rep(s string, n int) string { return strings.Repeat(s, n) }

func ExampleCount() {
	fmt.Println(segments.Count("Your appointment is on Monday at 9:30."))
	fmt.Println(segments.Count("Danke für Ihren Einkauf! Zeigen Sie diese Nachricht bis Ende Juli vor & sparen Sie 5 € 🎉"))
	// Output:
	// 1
	// 2
}
