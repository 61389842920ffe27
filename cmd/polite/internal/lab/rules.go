package lab

import "github.com/politehttp/polite/internal/rule"

// A key is what a provider remembers of one caller under one rule.
type key struct {
	rule  *rule.Rule
	state rule.State
	log   rule.History
}

// take charges one unit.
func (k *key) take(now int64) rule.Verdict {
	if k.rule.Long() {
		v := k.rule.Ask(&k.log, now, 1)
		if v.Allowed() {
			k.rule.Charge(&k.log, now, 1)
		}
		return v
	}
	next, v := k.rule.Take(k.state, now, 1)
	k.state = next
	return v
}

// must is for numbers that are written in this package.
func must(r *rule.Rule, err error) *rule.Rule {
	if err != nil {
		panic(err)
	}
	return r
}
