package lab

// limits are the experiments with limits, waits and retries.
var limits = []Experiment{
	burst,
	idle,
	instances,
	race,
	fleet,
	boundary,
	herd,
	storm,
	little,
}
