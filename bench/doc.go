// Package bench asks one question at a time, of this module and of its peers, in
// one binary and one run. Only ratios carry over to another machine:
//
//	GOWORK=off go -C bench run ./cmd/compare                  all tables, as Markdown
//	GOWORK=off go -C bench run ./cmd/compare -run Decisions   some of them
//	GOWORK=off go -C bench test -bench . -count 10            raw output for benchstat
//
// The command goes through all sides of a question once a round, and prints
// medians of the rounds and medians of the ratios within a round. README.md says
// what each side does. With -benchtime 1x everything is made small, to see that
// it works.
package bench
