package lab

// overload are the experiments with more load than a server can carry.
var overload = []Experiment{}
