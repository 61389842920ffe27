package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/politehttp/polite/examples/sms/provider"
	"github.com/politehttp/polite/examples/sms/segments"
)

// row is one message of the list.
type row struct {
	provider.Message
	N        int // from 1, the header not counted
	Segments int64
}

var columns = []string{"id", "from", "to", "text"}

// maxProblems is how many are reported; a wrong column has as many as rows.
const maxProblems = 10

var number = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)

// readList reads a whole list, or says all that is wrong with it: nothing is
// sent from a list that could not be sent to its end.
func readList(name string, r io.Reader) ([]row, error) {
	var rows []row
	var wrong []error
	seen := map[string]int{}
	at, in, err := header(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for n := 1; len(wrong) < maxProblems; n++ {
		fields, err := in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			var p *csv.ParseError
			if !errors.As(err, &p) {
				wrong = append(wrong, fmt.Errorf("%s: row %d: %w", name, n, err))
				break
			}
			wrong = append(wrong, fmt.Errorf("%s: row %d (line %d): %w", name, n, p.StartLine, malformed(p, len(fields))))
			if errors.Is(p.Err, csv.ErrFieldCount) {
				continue
			}
			// where the next row begins is not known
			break
		}
		line, _ := in.FieldPos(0)
		m := provider.Message{ID: fields[at["id"]], From: fields[at["from"]], To: fields[at["to"]], Text: fields[at["text"]]}
		if problem := check(m); problem != "" {
			wrong = append(wrong, fmt.Errorf("%s: row %d (line %d): %s", name, n, line, problem))
		} else if first, twice := seen[m.ID]; twice {
			wrong = append(wrong, fmt.Errorf("%s: row %d (line %d): id %q stands in row %d already", name, n, line, m.ID, first))
		}
		if _, twice := seen[m.ID]; !twice {
			seen[m.ID] = n
		}
		rows = append(rows, row{Message: m, N: n, Segments: segments.Count(m.Text)})
	}
	switch {
	case len(wrong) == maxProblems:
		wrong = append(wrong, fmt.Errorf("%s: and perhaps more; nothing was sent", name))
	case len(wrong) > 0:
		wrong = append(wrong, fmt.Errorf("%s: nothing was sent", name))
	case len(rows) == 0:
		wrong = append(wrong, fmt.Errorf("%s: no rows after the header", name))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return rows, nil
}

// header reads the first line and says where each column is.
func header(r io.Reader) (at map[string]int, in *csv.Reader, err error) {
	buffered := bufio.NewReader(r)
	if mark, _ := buffered.Peek(3); bytes.Equal(mark, []byte("\ufeff")) { // spreadsheets write it
		buffered.Discard(len(mark))
	}
	in = csv.NewReader(buffered)
	names, err := in.Read()
	if err == io.EOF {
		return nil, nil, fmt.Errorf("the file is empty; want a header: %s", strings.Join(columns, ","))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if len(names) == 1 && strings.Contains(names[0], ";") {
		return nil, nil, errors.New("header: the columns are separated by semicolons; export the list with commas")
	}
	at = map[string]int{}
	for i, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(columns, name) {
			return nil, nil, fmt.Errorf("header: column %q is unknown; want %s", names[i], strings.Join(columns, ","))
		}
		if _, twice := at[name]; twice {
			return nil, nil, fmt.Errorf("header: column %q stands there twice", name)
		}
		at[name] = i
	}
	for _, name := range columns {
		if _, there := at[name]; !there {
			return nil, nil, fmt.Errorf("header: column %q is missing; want %s", name, strings.Join(columns, ","))
		}
	}
	return at, in, nil
}

// malformed says what is wrong with a row that is no CSV.
func malformed(p *csv.ParseError, fields int) error {
	switch {
	case errors.Is(p.Err, csv.ErrFieldCount):
		return fmt.Errorf("%d fields, want %d: is a comma in the text, without quotes around it?", fields, len(columns))
	case errors.Is(p.Err, csv.ErrQuote):
		return errors.New(`a quote is never closed, or closed too early: within quotes, " is written ""`)
	case errors.Is(p.Err, csv.ErrBareQuote):
		return errors.New(`a quote in a text without quotes around it: write "5"" pipe" for 5" pipe`)
	}
	return p
}

func check(m provider.Message) string {
	for i, v := range []string{m.ID, m.From, m.To, m.Text} {
		switch {
		case strings.TrimSpace(v) == "":
			return columns[i] + " is empty"
		case !utf8.ValidString(v):
			return columns[i] + " is not UTF-8; export the list as UTF-8"
		}
	}
	for _, n := range []struct{ name, v string }{{"from", m.From}, {"to", m.To}} {
		if !number.MatchString(n.v) {
			return fmt.Sprintf("%s is %q; want a number such as +447700900123", n.name, n.v)
		}
	}
	return ""
}
