package lab

import (
	"fmt"
	"math"
	"strconv"
)

// A Table has a row for each case. A cell is a string, an int or a float64.
type Table struct {
	Title   string   `json:"title"`
	Columns []string `json:"columns"` // with units
	Rows    [][]any  `json:"rows"`
}

// Add adds a row.
func (t *Table) Add(cells ...any) { t.Rows = append(t.Rows, cells) }

// Text returns a cell as people read it.
func Text(cell any) string {
	switch v := cell.(type) {
	case string:
		return v
	case float64:
		return number(v)
	}
	return fmt.Sprint(cell)
}

// number writes v with as many digits as matter: 0.012, 1.07, 12.3, 1234.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case v == math.Trunc(v) || a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}
