package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
)

// draw writes the files that were asked for.
func (o *order) draw(all []outcome, progress io.Writer) error {
	write := func(name string, content func(io.Writer) error) error {
		if err := writeFile(name, content); err != nil {
			return err
		}
		fmt.Fprintln(progress, "wrote", name)
		return nil
	}
	for _, kind := range []struct {
		name  string
		paint func(*draw.Picture, io.Writer) error
	}{{o.svg, (*draw.Picture).SVG}, {o.png, (*draw.Picture).PNG}} {
		if kind.name == "" {
			continue
		}
		for i, p := range all[0].Pictures {
			if err := write(numbered(kind.name, i+1), func(w io.Writer) error { return kind.paint(&p, w) }); err != nil {
				return err
			}
		}
	}
	if o.html != "" {
		if err := write(o.html, func(w io.Writer) error { return page(w, all) }); err != nil {
			return err
		}
	}
	if o.docs != "" {
		if err := os.MkdirAll(o.docs, 0o755); err != nil {
			return err
		}
		for _, p := range documented(all) {
			if err := write(filepath.Join(o.docs, p.Name+".svg"), p.SVG); err != nil {
				return err
			}
		}
	}
	return nil
}

// documented returns the pictures that come out the same each time.
func documented(all []outcome) (pictures []draw.Picture) {
	for _, o := range all {
		if !o.experiment.Loose {
			pictures = append(pictures, o.Pictures...)
		}
	}
	return pictures
}

// numbered is the name of the nth file: a.svg, a-2.svg, …
func numbered(name string, n int) string {
	if n == 1 {
		return name
	}
	ext := filepath.Ext(name)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
}

// writeFile leaves no half a file behind if its content cannot be made.
func writeFile(name string, content func(io.Writer) error) error {
	var b bytes.Buffer
	if err := content(&b); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}
