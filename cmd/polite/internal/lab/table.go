package lab

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Table has a row for each case. A cell is a string, an int or a float64.
type Table struct {
	Title   string   `json:"title"`
	Columns []string `json:"columns"` // with units
	Rows    [][]any  `json:"rows"`
}

// Add adds a row.
func (t *Table) Add(cells ...any) { t.Rows = append(t.Rows, cells) }

// Texts returns the cells as people read them. Where a number of a column has
// decimals, whole ones beside it have them, too.
func (t *Table) Texts() [][]string {
	broken := make([]bool, len(t.Columns))
	for _, row := range t.Rows {
		for c, cell := range row {
			v, ok := cell.(float64)
			broken[c] = broken[c] || ok && strings.Contains(number(v), ".")
		}
	}
	texts := make([][]string, len(t.Rows))
	for r, row := range t.Rows {
		for c, cell := range row {
			text := fmt.Sprint(cell)
			if v, ok := cell.(float64); ok {
				if text = number(v); broken[c] && v == math.Trunc(v) && math.Abs(v) < 100 {
					text = strconv.FormatFloat(v, 'f', decimals(v), 64)
				}
			}
			texts[r] = append(texts[r], text)
		}
	}
	return texts
}

// Text returns the number of a figure as people read it.
func (f *Figure) Text() string { return strings.TrimSpace(number(f.Got) + " " + f.Unit) }

// number writes v with as many digits as matter: 0.012, 1.07, 12.3, 1234.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a < 0.1:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', decimals(v), 64)
}

func decimals(v float64) int {
	switch a := math.Abs(v); {
	case a >= 100:
		return 0
	case a >= 10:
		return 1
	}
	return 2
}
