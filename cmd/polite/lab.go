package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/lab"
)

const labUsage = `Usage: polite lab                    lists the experiments
       polite lab NAME [OPTIONS]     reruns one, and prints what came out
       polite lab all [OPTIONS]      reruns all of them

They run in virtual time on the parts that programs get, and are the same each
time for one seed. Each has figures that must hold: the exit code is 1 if one is
missed.

Options:
`

// order is what a command line of lab asks for.
type order struct {
	names   []string // of experiments; empty: list them
	options lab.Options
	json    bool
	svg     string
	png     string
	html    string
	docs    string
}

// outcome is a run of an experiment.
type outcome struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Seed  uint64 `json:"seed"`
	OK    bool   `json:"ok"`
	*lab.Result

	experiment lab.Experiment
}

func parseLab(args []string, out io.Writer) (o order, err error) {
	flags := flag.NewFlagSet("polite lab", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Uint64Var(&o.options.Seed, "seed", 1, "what everything random is drawn from, a `number`")
	flags.StringVar(&o.options.Redis, "redis", "", "race: the `address` of a Redis that is there already, or embedded")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.StringVar(&o.svg, "svg", "", "draw into this `file`; a second picture goes to one with -2 in its name")
	flags.StringVar(&o.png, "png", "", "the same as PNG, a `file`")
	flags.StringVar(&o.html, "html", "", "write one page with everything, a `file`; without a name: of all")
	flags.StringVar(&o.docs, "docs", "", "draw every picture as NAME.svg into this `folder`; not those that never come out the same")
	var words []string
	for rest := args; ; { // flags may stand before and after the name
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, labUsage)
			flags.SetOutput(out)
			flags.PrintDefaults()
			return o, err
		} else if err != nil {
			return o, usagef("%v; see polite lab --help", err)
		}
		if rest = flags.Args(); len(rest) == 0 {
			break
		}
		words, rest = append(words, rest[0]), rest[1:]
	}
	switch {
	case len(words) > 1:
		return o, usagef("what is %q? polite lab takes the name of one experiment, or all", words[1])
	case len(words) == 1 && words[0] != "all":
		if _, ok := lab.Find(words[0]); !ok {
			return o, usagef("there is no experiment %q; there are %s", words[0], strings.Join(names(), ", "))
		}
		o.names = words
	case len(words) == 1, o.html != "", o.docs != "":
		o.names = names()
	case o.json, o.svg != "", o.png != "":
		return o, usagef("the name of an experiment is missing, or all; there are %s", strings.Join(names(), ", "))
	}
	if len(o.names) != 1 && (o.svg != "" || o.png != "") {
		return o, usagef("--svg and --png draw one experiment; --html and --docs draw all")
	}
	return o, nil
}

func names() (all []string) {
	for _, e := range lab.All() {
		all = append(all, e.Name)
	}
	return all
}

func runLab(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parseLab(args, out)
	if err != nil {
		return err
	}
	if len(o.names) == 0 {
		list(out)
		return nil
	}
	all, err := o.run(ctx, progress)
	if err != nil {
		return err
	}
	if o.json {
		err = printJSON(out, all)
	} else {
		err = printText(out, all)
	}
	if err == nil {
		err = o.draw(all, progress)
	}
	if err != nil {
		return err
	}
	return missed(all)
}

func list(out io.Writer) {
	wide := 0
	for _, name := range names() {
		wide = max(wide, len(name))
	}
	for _, e := range lab.All() {
		fmt.Fprintf(out, "%-*s  %s\n", wide, e.Name, e.Title)
	}
}

// run runs the experiments, one after the other.
func (o *order) run(ctx context.Context, progress io.Writer) (all []outcome, err error) {
	for i, name := range o.names {
		e, _ := lab.Find(name)
		say := fmt.Sprintf("%s …", name)
		if len(o.names) > 1 {
			say = fmt.Sprintf("%s, %d of %d …", name, i+1, len(o.names))
		}
		done := after(time.Second, func() { fmt.Fprintln(progress, say) })
		r, err := e.Run(ctx, o.options)
		done()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, outcome{e.Name, e.Title, o.options.Seed, r.OK(), r, e})
	}
	return all, nil
}

// after runs f after d unless the function it returns is called before; that
// one waits for f.
func after(d time.Duration, f func()) (done func()) {
	ran := make(chan struct{})
	timer := time.AfterFunc(d, func() { defer close(ran); f() })
	return func() {
		if !timer.Stop() {
			<-ran
		}
	}
}

func printJSON(out io.Writer, all []outcome) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if len(all) == 1 {
		return e.Encode(all[0])
	}
	return e.Encode(all)
}

// missed says which figures do not hold, if any.
func missed(all []outcome) error {
	var say []string
	for _, o := range all {
		for _, f := range o.Figures {
			if !f.OK {
				say = append(say, o.Name+": "+f.Name)
			}
		}
	}
	if len(say) == 0 {
		return nil
	}
	slices.Sort(say)
	return fmt.Errorf("missed: %s", strings.Join(say, "; "))
}
