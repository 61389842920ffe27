package main

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/cmd/polite/internal/lab"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"inline":  inline,
	"teaches": func(o outcome) string { return o.experiment.Teaches },
	"number": func(t lab.Table, row, column int) bool {
		_, isText := t.Rows[row][column].(string)
		return !isText
	},
}).Parse(pageHTML))

// page writes one page that has everything in it.
func page(to io.Writer, all []outcome) error { return pageTemplate.Execute(to, all) }

// inline draws a picture as a part of a page.
func inline(p draw.Picture) (template.HTML, error) {
	var b bytes.Buffer
	if err := p.SVG(&b); err != nil {
		return "", err
	}
	_, svg, _ := bytes.Cut(b.Bytes(), []byte("<svg"))
	return template.HTML("<svg" + string(svg)), nil //nolint:gosec // made by draw, which escapes text
}
