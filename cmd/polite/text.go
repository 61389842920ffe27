package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/politehttp/polite/cmd/polite/internal/lab"
)

const columns = 80 // of a terminal

// printText prints what came out as people read it.
func printText(to io.Writer, all []outcome) error {
	out := bufio.NewWriter(to)
	for i, o := range all {
		if i > 0 {
			fmt.Fprint(out, "\n\n")
		}
		heading := o.Name + ": " + o.Title
		lines := wrap(heading, columns)
		fmt.Fprintf(out, "%s\n%s\n", strings.Join(lines, "\n"), strings.Repeat("=", wide(longest(lines))))
		fmt.Fprintf(out, "\n%s\n", strings.Join(wrap(o.experiment.Teaches, columns), "\n"))
		for _, note := range o.Notes {
			fmt.Fprintf(out, "\n%s\n", strings.Join(wrap(note, columns), "\n"))
		}
		for _, t := range o.Tables {
			fmt.Fprintf(out, "\n%s\n\n", strings.Join(wrap(t.Title, columns), "\n"))
			for _, line := range layOut(t) {
				fmt.Fprintln(out, line)
			}
		}
		fmt.Fprint(out, "\nWhat must hold:\n\n")
		for _, line := range figures(o.Figures) {
			fmt.Fprintln(out, line)
		}
	}
	return out.Flush()
}

// figures lays them out: whether each holds, what it is, and its bound.
func figures(all []lab.Figure) (lines []string) {
	got, bound := 0, 0
	for _, f := range all {
		got, bound = max(got, wide(f.Text())), max(bound, wide(f.Bound))
	}
	room := columns - 2 - len("MISSED  ") - 2 - got - 2 - bound
	name := 0
	for _, f := range all {
		name = max(name, wide(longest(wrap(f.Name, room))))
	}
	for _, f := range all {
		status := "ok"
		if !f.OK {
			status = "MISSED"
		}
		parts := wrap(f.Name, room)
		for _, part := range parts[:len(parts)-1] {
			lines = append(lines, fmt.Sprintf("  %-6s  %s", status, part))
			status = ""
		}
		line := fmt.Sprintf("  %-6s  %s  %s  %s", status, left(parts[len(parts)-1], name), right(f.Text(), got), f.Bound)
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// layOut lays a table out: numbers to the right, and headings broken where the
// width asks for it. What is too wide goes below in a part of its own, with the
// columns by which rows are known.
func layOut(t lab.Table) (lines []string) {
	cells := t.Texts()
	least := make([]int, len(t.Columns))    // what a column needs
	numbers := make([]bool, len(t.Columns)) // all of it
	for c, head := range t.Columns {
		least[c], numbers[c] = wide(longest(strings.Fields(head))), len(t.Rows) > 0
	}
	for r, row := range t.Rows {
		for c, cell := range row {
			least[c] = max(least[c], wide(cells[r][c]))
			_, isText := cell.(string)
			numbers[c] = numbers[c] && !isText
		}
	}
	known := keys(cells)
	sum := 0
	for c, w := range least {
		if sum += w + 2; sum-2 > columns && c > known {
			one, rest := split(t, known, c)
			return append(append(layOut(one), ""), layOut(rest)...)
		}
	}
	widen(least, t.Columns)
	heads := make([][]string, len(t.Columns))
	high := 0
	for c, head := range t.Columns {
		heads[c] = wrap(head, least[c])
		high = max(high, len(heads[c]))
	}
	for i := range high {
		var row []string
		for c := range t.Columns {
			part := ""
			if skip := high - len(heads[c]); i >= skip {
				part = heads[c][i-skip]
			}
			row = append(row, part)
		}
		lines = append(lines, join(row, least, numbers))
	}
	rule := make([]string, len(least))
	for c := range rule {
		rule[c] = strings.Repeat("-", least[c])
	}
	lines = append(lines, join(rule, least, numbers))
	for _, row := range cells {
		lines = append(lines, join(row, least, numbers))
	}
	return lines
}

// keys returns how many of the first columns tell the rows apart.
func keys(rows [][]string) (n int) {
	for n = 1; len(rows) > 0 && n < len(rows[0]); n++ {
		seen := map[string]bool{}
		for _, row := range rows {
			seen[strings.Join(row[:n], "\x00")] = true
		}
		if len(seen) == len(rows) {
			break
		}
	}
	return n
}

// split returns the columns before c, and the others after those that are known.
func split(t lab.Table, known, c int) (one, rest lab.Table) {
	one.Columns = t.Columns[:c]
	rest.Columns = slices.Concat(t.Columns[:known], t.Columns[c:])
	for _, row := range t.Rows {
		one.Rows = append(one.Rows, row[:c])
		rest.Rows = append(rest.Rows, slices.Concat(row[:known], row[c:]))
	}
	return one, rest
}

// widen gives columns the room that is left, so that no heading has more lines
// than it must.
func widen(least []int, heads []string) {
	for high := 1; high < columns; high++ {
		widths, sum := make([]int, len(heads)), 0
		for c, head := range heads {
			widths[c] = least[c]
			for len(wrap(head, widths[c])) > high {
				widths[c]++
			}
			sum += widths[c] + 2
		}
		if sum-2 <= columns {
			copy(least, widths)
			return
		}
	}
}

func join(row []string, widths []int, numbers []bool) string {
	var b strings.Builder
	for c, cell := range row {
		if c > 0 {
			b.WriteString("  ")
		}
		if numbers[c] {
			b.WriteString(right(cell, widths[c]))
		} else {
			b.WriteString(left(cell, widths[c]))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// wrap breaks text into lines of at most width, between words.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case wide(line)+1+wide(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

func longest(lines []string) (most string) {
	for _, line := range lines {
		if wide(line) > wide(most) {
			most = line
		}
	}
	return most
}

func wide(s string) int { return utf8.RuneCountInString(s) }

func left(s string, width int) string { return s + strings.Repeat(" ", max(width-wide(s), 0)) }

func right(s string, width int) string { return strings.Repeat(" ", max(width-wide(s), 0)) + s }
