// Package lab has the experiments that show what the project's rules, budgets,
// queues and breakers do under load, and what happens without them. They run the
// engines that users get, in virtual time, from a fixed seed: a result is a pure
// function of its [Options], but for the race, which needs a real Redis and real
// time.
//
// One file has one experiment: how it is set up, what it must show, and how it
// is drawn.
package lab

import (
	"context"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
)

// An Experiment can be run again and again, and shows the same each time.
type Experiment struct {
	Name    string // one word
	Title   string // one line
	Teaches string // in plain words: what happens, why, and what to do
	Run     func(context.Context, Options) (*Result, error)
	Loose   bool // runs in real time, so that no two results are the same to the byte
}

// Options are what a run depends on.
type Options struct {
	Seed  uint64
	Redis string // race: the address of a Redis that is there already; "embedded": within this program
}

// A Result is what came out.
type Result struct {
	Notes    []string       `json:"notes,omitempty"` // what to know of this run, a sentence each
	Tables   []Table        `json:"tables"`
	Figures  []Figure       `json:"figures"` // what must hold
	Pictures []draw.Picture `json:"-"`
}

// OK tells whether all figures hold.
func (r *Result) OK() bool {
	for _, f := range r.Figures {
		if !f.OK {
			return false
		}
	}
	return true
}

// All returns the experiments, in the order in which they are best read.
func All() []Experiment {
	return append(append([]Experiment(nil), limits...), overload...)
}

// Find returns the experiment of that name.
func Find(name string) (Experiment, bool) {
	for _, e := range All() {
		if e.Name == name {
			return e, true
		}
	}
	return Experiment{}, false
}
