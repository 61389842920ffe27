package draw

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes, in points.
const (
	margin     = 8
	titleSize  = 13
	labelSize  = 11
	tickSize   = 10
	legendSize = 10.5
	rowHeight  = 16
	swatch     = 20 // a legend's piece of line
)

var (
	ink   = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	faint = color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}

	palette = []color.NRGBA{
		{0x00, 0x72, 0xb2, 0xff}, // blue
		{0xd5, 0x5e, 0x00, 0xff}, // vermilion
		{0x00, 0x9e, 0x73, 0xff}, // green
		{0xcc, 0x79, 0xa7, 0xff}, // purple
		{0xe6, 0x9f, 0x00, 0xff}, // orange
		{0x56, 0xb4, 0xe9, 0xff}, // sky
		{0x55, 0x55, 0x55, 0xff}, // grey
	}
)

func style(size vg.Length) text.Style {
	return text.Style{
		Color:   ink,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		Handler: plot.DefaultTextHandler,
	}
}

func (p *Picture) check() error {
	if len(p.Series) == 0 {
		return fmt.Errorf("draw: %s has no series", p.Name)
	}
	for _, s := range p.Series {
		for _, at := range s.Points {
			if math.IsNaN(at.X+at.Y) || math.IsInf(at.X+at.Y, 0) {
				return fmt.Errorf("draw: %s: %q has a point at %v", p.Name, s.Name, at)
			}
		}
	}
	return nil
}

func (p *Picture) draw(c draw.Canvas) error {
	if err := p.check(); err != nil {
		return err
	}
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)

	title := style(titleSize)
	title.YAlign = draw.YTop
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y}, p.Title)
	c.Max.Y -= rowHeight + 4
	c.Max.Y -= p.legend(c)

	plotted := p.plot()
	right := vg.Length(12)
	small := style(tickSize)
	for _, l := range p.Limits {
		right = max(right, small.Width(l.Name)+8)
	}
	c.Max.X -= right
	label := style(labelSize)
	if p.Y.Label != "" {
		c.Min.X += labelSize + 5
	}
	if len(p.Marks) > 0 {
		c.Max.Y -= rowHeight - 2
	}
	plotted.Draw(c)
	p.annotate(c, plotted, small)
	// Gonum would make room above for the label of a logarithmic axis.
	if d := plotted.DataCanvas(c); p.Y.Label != "" {
		label.Rotation, label.XAlign = math.Pi/2, draw.XCenter
		c.FillText(label, vg.Point{X: c.Min.X - 7, Y: d.Center().Y}, p.Y.Label)
	}
	return nil
}

// plot has the axes and the data.
func (p *Picture) plot() *plot.Plot {
	q := plot.New()
	q.BackgroundColor = nil
	for _, axis := range []struct {
		to   *plot.Axis
		from Axis
	}{{&q.X, p.X}, {&q.Y, p.Y}} {
		axis.to.Label.Text = axis.from.Label
		axis.to.Label.TextStyle.Font = style(labelSize).Font
		axis.to.Label.TextStyle.Color = ink
		axis.to.Label.Padding = 3
		axis.to.Tick.Label.Font = style(tickSize).Font
		axis.to.Tick.Label.Color = ink
		axis.to.Color, axis.to.Tick.Color = ink, ink
		axis.to.Tick.Marker = ticks{axis.from}
		if axis.from.Log {
			axis.to.Scale = plot.LogScale{}
		}
		axis.to.Padding = 0
	}
	q.Y.Label.Text = ""
	q.X.Min, q.X.Max = p.rangeOf(p.X, func(at Point) float64 { return at.X })
	q.Y.Min, q.Y.Max = p.rangeOf(p.Y, func(at Point) float64 { return at.Y })
	q.Add(across{})
	bars := 0
	for _, s := range p.Series {
		if s.Kind == Bars && s.Width == 0 {
			bars++
		}
	}
	bar := 0
	for i, s := range p.Series {
		d := data{Series: s, color: palette[i%len(palette)], center: 0}
		if s.Kind == Bars && s.Width == 0 {
			d.Width = 0.8 / float64(bars)
			d.center = (float64(bar) - float64(bars-1)/2) * d.Width
			bar++
		}
		q.Add(d)
	}
	return q
}

func (p *Picture) rangeOf(a Axis, of func(Point) float64) (low, high float64) {
	if a.Names != nil {
		return -0.5, float64(len(a.Names)) - 0.5
	}
	if a.Min != 0 || a.Max != 0 {
		return a.Min, a.Max
	}
	for _, s := range p.Series {
		for _, at := range s.Points {
			low, high = min(low, of(at)), max(high, of(at))
		}
	}
	for _, l := range p.Limits {
		high = max(high, of(Point{Y: l.Y}))
	}
	if of(Point{Y: 1}) == 1 { // room above
		high *= 1.08
	}
	if high == low {
		high = low + 1
	}
	return low, high
}

// annotate draws limits and marks, and their names outside of the data.
func (p *Picture) annotate(c draw.Canvas, q *plot.Plot, small text.Style) {
	d := q.DataCanvas(c)
	x, y := q.Transforms(&d)
	for _, l := range p.Limits {
		at := y(l.Y)
		d.StrokeLine2(draw.LineStyle{Color: ink, Width: 1.2, Dashes: []vg.Length{6, 4}}, d.Min.X, at, d.Max.X, at)
		small.XAlign, small.YAlign = draw.XLeft, draw.YCenter
		lines := strings.Split(l.Name, "\n")
		for i, line := range lines {
			below := vg.Length(float64(i)-float64(len(lines)-1)/2) * (tickSize + 2)
			d.FillText(small, vg.Point{X: d.Max.X + 5, Y: at - below}, line)
		}
	}
	for _, m := range p.Marks {
		at := x(m.X)
		d.StrokeLine2(draw.LineStyle{Color: ink, Width: 1, Dashes: []vg.Length{1.5, 3}}, at, d.Min.Y, at, d.Max.Y)
		small.XAlign, small.YAlign = draw.XCenter, draw.YBottom
		d.FillText(small, vg.Point{X: at, Y: d.Max.Y + 3}, m.Name)
	}
}

// legend draws the names of the series in rows, and returns how high they are.
func (p *Picture) legend(c draw.Canvas) vg.Length {
	s := style(legendSize)
	s.YAlign = draw.YCenter
	x, y := c.Min.X, c.Max.Y-rowHeight/2
	rows := vg.Length(0)
	for i, series := range p.Series {
		if series.Name == "" {
			continue
		}
		wide := swatch + 5 + s.Width(series.Name) + 16
		if rows == 0 {
			rows = 1
		} else if x+wide > c.Max.X {
			x, y, rows = c.Min.X, y-rowHeight, rows+1
		}
		d := data{Series: series, color: palette[i%len(palette)]}
		d.swatch(c, x, y)
		c.FillText(s, vg.Point{X: x + swatch + 5, Y: y}, series.Name)
		x += wide
	}
	if rows == 0 {
		return 0
	}
	return rows*rowHeight + 4
}
