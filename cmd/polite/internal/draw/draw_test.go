package draw

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sample() *Picture {
	return &Picture{
		Name: "sample", Title: "Load < 100 % & more",
		X: Axis{Label: "time, s"}, Y: Axis{Label: "calls"},
		Series: []Series{
			{Name: "a line", Points: []Point{{0, 0}, {1, 10}, {2, 1500}}},
			{Name: "steps", Kind: Steps, Dashed: true, Points: []Point{{0, 5}, {2, 7}}},
			{Name: "dots", Kind: Points, Points: []Point{{1, 3}}},
			{Name: "bars", Kind: Bars, Width: 0.5, Plain: true, Points: []Point{{0.25, 3}, {0.75, 0}, {1.25, 900}}},
		},
		Limits: []Limit{{Name: "limit:\n1,000", Y: 1000}},
		Marks:  []Mark{{Name: "it stalls", X: 1}},
	}
}

func svg(t *testing.T, p *Picture) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.SVG(&b))
	return b.String()
}

func TestSVG(t *testing.T) {
	text := svg(t, sample())
	assert.Equal(t, text, svg(t, sample()), "to the byte")

	d := xml.NewDecoder(strings.NewReader(text))
	var words []string
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if chars, ok := token.(xml.CharData); ok && strings.TrimSpace(string(chars)) != "" {
			words = append(words, string(chars))
		}
	}
	for _, want := range []string{
		"Load < 100 % & more", "time, s", "calls", "a line", "steps", "dots", "bars", "limit:", "1,000", "it stalls", "1.6", "1,600",
	} {
		assert.Contains(t, words, want, "text is text")
	}
	assert.Contains(t, text, `width="600pt" height="337.5pt"`)
	assert.Contains(t, text, "font-family:'Liberation Sans',Arial")
	assert.Equal(t, strings.Count(text, "<text "), strings.Count(text, "<text textLength="), "no other font makes it wider")
	assert.NotContains(t, text, "font-family:Liberation")
	assert.Contains(t, text, "stroke-dasharray:6,4", "the limit is dashed")
	assert.NotContains(t, text, "<image")
}

func TestPNG(t *testing.T) {
	if raced {
		t.Skip("two seconds in one goroutine, where the race detector finds nothing")
	}
	var b bytes.Buffer
	require.NoError(t, sample().PNG(&b))
	image, err := png.Decode(&b)
	require.NoError(t, err)
	assert.Equal(t, 1600, image.Bounds().Dx())
	assert.Equal(t, 900, image.Bounds().Dy())
}

// Numbers stand on bars of groups, side by side.
func TestGroups(t *testing.T) {
	p := &Picture{
		Name: "groups",
		X:    Axis{Names: []string{"one", "two"}},
		Series: []Series{
			{Name: "a", Kind: Bars, Points: []Point{{0, 0.123}, {1, 12345.6}}},
			{Name: "b", Kind: Bars, Points: []Point{{0, 1}, {1, 2}}},
		},
	}
	text := svg(t, p)
	for _, want := range []string{">one<", ">two<", ">0.123<", ">12,346<"} {
		assert.Contains(t, text, want)
	}
}

func TestNothingToDraw(t *testing.T) {
	require.ErrorContains(t, (&Picture{Name: "x"}).SVG(io.Discard), "x has no series")
	p := sample()
	p.Series[0].Points[1].Y = math.NaN()
	require.ErrorContains(t, p.PNG(io.Discard), `"a line" has a point at {1 NaN}`)
}

func TestTicks(t *testing.T) {
	labels := func(a Axis, low, high float64) (all []string) {
		for _, tick := range (ticks{a}).Ticks(low, high) {
			if tick.Label != "" {
				all = append(all, tick.Label)
			}
		}
		return all
	}
	assert.Equal(t, []string{"0", "5", "10", "15", "20"}, labels(Axis{}, 0, 21.6))
	assert.Equal(t, []string{"−1", "−0.5", "0", "0.5", "1"}, labels(Axis{}, -1, 1.2))
	assert.Equal(t, []string{"1", "10", "100", "1,000"}, labels(Axis{Log: true}, 1, 1000))
	assert.Equal(t, []string{"0.1", "0.2", "0.5", "1", "2"}, labels(Axis{Log: true}, 0.1, 2))
	for _, span := range []float64{0.013, 0.9, 1, 1.01, 2, 4.2, 7, 99, 12345} {
		n := len(labels(Axis{}, 0, span))
		assert.True(t, n >= 5 && n <= 11, "%v: %d", span, n)
	}
}
