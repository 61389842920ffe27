package draw

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// data draws a series.
type data struct {
	Series
	color  color.NRGBA
	center float64 // of a bar, from its X
}

func (d data) line() draw.LineStyle {
	s := draw.LineStyle{Color: d.color, Width: 2}
	if d.Dashed {
		s.Dashes = []vg.Length{5, 3}
	}
	return s
}

// Plot draws the series on the axes of q. What lies beyond them is cut off.
func (d data) Plot(c draw.Canvas, q *plot.Plot) {
	x, y := q.Transforms(&c)
	switch d.Kind {
	case Bars:
		d.bars(c, q)
	case Points:
		for _, at := range d.Points {
			c.DrawGlyph(d.dot(), vg.Point{X: x(at.X), Y: y(at.Y)})
		}
	default:
		var path []vg.Point
		for i, at := range d.Points {
			if d.Kind == Steps && i > 0 {
				path = append(path, vg.Point{X: x(at.X), Y: y(d.Points[i-1].Y)})
			}
			path = append(path, vg.Point{X: x(at.X), Y: y(at.Y)})
		}
		c.StrokeLines(d.line(), c.ClipLinesXY(path)...)
	}
}

func (d data) dot() draw.GlyphStyle {
	return draw.GlyphStyle{Color: d.color, Radius: 2.5, Shape: draw.CircleGlyph{}}
}

func (d data) bars(c draw.Canvas, q *plot.Plot) {
	x, y := q.Transforms(&c)
	floor := y(math.Max(q.Y.Min, 0))
	number := style(tickSize)
	number.XAlign, number.YAlign = draw.XCenter, draw.YBottom
	var outline []vg.Point // of Plain ones, which may be many
	for _, at := range d.Points {
		left, right := x(at.X+d.center-d.Width/2), x(at.X+d.center+d.Width/2)
		top := y(at.Y)
		bar := []vg.Point{{X: left, Y: floor}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: floor}}
		if d.Plain {
			if n := len(outline); n > 0 && math.Abs(float64(outline[n-1].X-left)) < 1e-6 {
				outline = outline[:n-1] // side by side
				bar = bar[1:]
			}
			outline = append(outline, bar...)
			continue
		}
		c.FillPolygon(d.color, c.ClipPolygonXY(bar))
		c.FillText(number, vg.Point{X: (left + right) / 2, Y: min(top, c.Max.Y) + 2}, short(at.Y))
	}
	if outline != nil {
		c.FillPolygon(d.color, c.ClipPolygonXY(outline))
	}
}

// swatch draws what stands for the series in the legend.
func (d data) swatch(c draw.Canvas, x, y vg.Length) {
	switch d.Kind {
	case Bars:
		c.FillPolygon(d.color, []vg.Point{{X: x + 4, Y: y - 5}, {X: x + 4, Y: y + 5}, {X: x + 16, Y: y + 5}, {X: x + 16, Y: y - 5}})
	case Points:
		c.DrawGlyph(d.dot(), vg.Point{X: x + swatch/2, Y: y})
	default:
		c.StrokeLine2(d.line(), x, y, x+swatch, y)
	}
}

// across draws faint lines at the numbers of Y.
type across struct{}

func (across) Plot(c draw.Canvas, q *plot.Plot) {
	_, y := q.Transforms(&c)
	for _, tick := range q.Y.Tick.Marker.Ticks(q.Y.Min, q.Y.Max) {
		if tick.Label != "" {
			c.StrokeLine2(draw.LineStyle{Color: faint, Width: 0.7}, c.Min.X, y(tick.Value), c.Max.X, y(tick.Value))
		}
	}
}

// ticks chooses the numbers of an axis.
type ticks struct{ Axis }

func (t ticks) Ticks(low, high float64) (all []plot.Tick) {
	switch {
	case t.Names != nil:
		for i, name := range t.Names {
			all = append(all, plot.Tick{Value: float64(i), Label: name})
		}
	case t.Log:
		few := high/low < 200
		for v := math.Pow(10, math.Floor(math.Log10(low))); v <= high*1.0001; v *= 10 {
			for _, m := range []float64{1, 2, 3, 4, 5, 6, 7, 8, 9} {
				tick := plot.Tick{Value: m * v}
				if m == 1 || few && (m == 2 || m == 5) {
					tick.Label = short(m * v)
				}
				if tick.Value >= low*0.9999 && tick.Value <= high*1.0001 {
					all = append(all, tick)
				}
			}
		}
	default:
		step := stepFor(high - low)
		for n := math.Ceil(low/step - 1e-9); n*step <= high+step*1e-9; n++ {
			all = append(all, plot.Tick{Value: n * step, Label: short(n * step)})
		}
	}
	return all
}

// stepFor is a round number that goes into a span four to ten times.
func stepFor(span float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(span)))
	for _, m := range []float64{0.1, 0.2, 0.5} {
		if span/(m*unit) <= 10 {
			return m * unit
		}
	}
	return unit
}

// short writes a number with three digits at least that matter, and thousands
// apart.
func short(v float64) string {
	sign := ""
	if v < 0 {
		sign = "−"
	}
	v = math.Abs(v)
	if v >= 100 || v == math.Trunc(v) {
		text := strconv.FormatFloat(math.Round(v), 'f', -1, 64)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return sign + text
	}
	return sign + strconv.FormatFloat(v, 'g', 3, 64)
}
