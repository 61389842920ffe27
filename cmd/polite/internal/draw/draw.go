// Package draw turns what an experiment has to show into a picture: SVG, with its
// text as text, or PNG. What is drawn is a pure function of the [Picture], to the
// byte.
//
//	┌─────────────────────────────────────┐
//	│ Title                               │
//	│ ── series  ── series                │
//	│  │                                  │
//	│ Y│- - - - - - - - - - - - - - limit │   the names of limits stand in the margin,
//	│  │      the data                    │   where no data can be
//	│  └──────────────────────────        │
//	│             X                       │
//	└─────────────────────────────────────┘
//
// The colours are those of Okabe and Ito, which colour-blind people can tell
// apart.
package draw

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"regexp"
	"strconv"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Picture has axes, series of data on them, and limits.
type Picture struct {
	Name  string // of its file, without extension; unique over all experiments
	Title string
	Says  string // what is to be seen in it, in a sentence or two

	X, Y   Axis
	Series []Series
	Limits []Limit
	Marks  []Mark
}

// An Axis is one of the two. What it does not say follows from the data.
type Axis struct {
	Label    string   // what it is, and the unit
	Min, Max float64  // both zero: as the data has it, and from 0
	Log      bool     // powers of ten; Min must be positive
	Names    []string // of groups, which stand at 0, 1, 2, … in place of numbers
}

// Kind is how a series is drawn.
type Kind int

// The kinds.
const (
	Line   Kind = iota // straight from point to point
	Steps              // flat until the next point
	Points             // dots
	Bars               // from 0 to each point; several of such series stand side by side
)

// A Series is data of one kind.
type Series struct {
	Name   string // in the legend; empty: not there
	Kind   Kind
	Points []Point
	Dashed bool    // Line and Steps
	Width  float64 // Bars: of one, in units of X; zero: side by side within a group
	Plain  bool    // Bars: without the numbers on top
}

// A Point of a series.
type Point struct{ X, Y float64 }

// A Limit is a dashed line across, at a value of Y.
type Limit struct {
	Name string // stands in the margin; "\n" breaks it
	Y    float64
}

// A Mark is a dotted line upright, at a value of X.
type Mark struct {
	Name string // stands on top
	X    float64
}

// The size of every picture: 800 × 450 pixels of CSS.
const (
	width  = 600 * vg.Inch / 72
	height = 337.5 * vg.Inch / 72
	dpi    = 192 // of PNG
)

// SVG writes p as SVG.
func (p *Picture) SVG(w io.Writer) error {
	c := vgsvg.New(width, height)
	if err := p.draw(draw.New(c)); err != nil {
		return err
	}
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return fmt.Errorf("draw: %s: %w", p.Name, err)
	}
	svg := fit(b.Bytes())
	// A name for who cannot see the picture.
	var title bytes.Buffer
	if err := xml.EscapeText(&title, []byte(p.Title)); err != nil {
		return fmt.Errorf("draw: %s: %w", p.Name, err)
	}
	svg = bytes.Replace(svg, []byte("\n<g "), []byte("\n<title>"+title.String()+"</title>\n<g "), 1)
	_, err := w.Write(svg)
	return err
}

// words is a text of gonum's: its size and its words are captured.
var words = regexp.MustCompile(`<text (x="[^"]*" y="[^"]*" [^>]*)font-family:Liberation Sans;([^>]*font-size:([0-9.]+)px;[^>]*)>([^<]+)</text>`)

// fit has every text as wide as it is in the font that it was laid out in. Where
// that one is missing, another one without serifs is stretched, as words would
// run into each other else.
func fit(svg []byte) []byte {
	return words.ReplaceAllFunc(svg, func(text []byte) []byte {
		part := words.FindSubmatch(text)
		size, err := strconv.ParseFloat(string(part[3]), 64)
		if err != nil {
			return text
		}
		wide := style(vg.Length(size)).Width(html.UnescapeString(string(part[4]))).Points()
		return fmt.Appendf(nil, `<text textLength="%.1f" lengthAdjust="spacingAndGlyphs" %sfont-family:'Liberation Sans',Arial,Helvetica,sans-serif;%s>%s</text>`,
			wide, part[1], part[2], part[4])
	})
}

// PNG writes p as PNG, at twice the size.
func (p *Picture) PNG(w io.Writer) error {
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}
	if err := p.draw(draw.New(c)); err != nil {
		return err
	}
	_, err := c.WriteTo(w)
	return err
}
