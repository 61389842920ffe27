package lab

// overload are the experiments with more load than a server can carry.
var overload = []Experiment{
	overloadExperiment,
	late,
	collapse,
	budgetExperiment,
	throttle,
	learn,
	adaptive,
	fair,
	oversold,
	gate,
}
