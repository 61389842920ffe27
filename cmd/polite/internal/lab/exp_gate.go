package lab

import "context"

var gate = Experiment{
	Name:  "gate",
	Title: "What must hold before this is shipped, worst of ten seeds",
	Teaches: "Each line is a figure of one of the experiments, run with ten seeds, of which the worst is shown, and the bar " +
		"that it has to pass. What depends on the machine, such as that an admission costs no more than a few readings of " +
		"the clock, is measured by the benchmarks of package shed.",
	Run: runGate,
}

// shipped are the figures that must hold with every seed.
var shipped = []func(seed uint64) []Figure{
	overloadFigures, collapseFigures, budgetFigures, throttleFigures, learnFigures, adaptiveFigures, fairFigures,
}

func runGate(_ context.Context, o Options) (*Result, error) {
	result := &Result{Notes: []string{"Each figure is the worst of ten seeds."}, Tables: []Table{}}
	for _, figures := range shipped {
		result.Figures = append(result.Figures, worstOf(o.Seed, figures)...)
	}
	memory := memoryFigure(o.Seed)
	for seed := o.Seed + 1; seed < o.Seed+seeds; seed++ {
		if f := memoryFigure(seed); f.worse(memory) {
			memory = f
		}
	}
	result.Figures = append(result.Figures, memory)
	return result, nil
}
