package redisstore

import "context"

// Run runs a script as the verbs do.
func (s *Store) Run(ctx context.Context, script *Script, keys, args []string) ([]string, error) {
	return s.eval(ctx, script, keys, args)
}

// Long says that the long tests run.
var Long = long

// Raced says that the race detector is on.
const Raced = raced
