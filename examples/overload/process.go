package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// loadMark, in the environment, makes this program a load.
const loadMark = "POLITE_OVERLOAD_LOAD"

func isLoad() bool { return os.Getenv(loadMark) != "" }

// outcome is what a load did.
type outcome struct {
	order
	tally
	seconds []tally
	took    []int64 // percentiles, in nanoseconds
}

// send has a process of its own do what is ordered, and calls each after every
// second.
func send(ctx context.Context, o order, each func(second int, t tally)) (*outcome, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), loadMark+"=1")
	cmd.Stdin = bytes.NewReader(text)
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	result := &outcome{order: o}
	lines, over := json.NewDecoder(said), false
	for !over {
		var n news
		if err = lines.Decode(&n); err != nil {
			break
		}
		result.add(n.Second)
		if over = n.Over; !over {
			result.seconds = append(result.seconds, n.Second)
			each(len(result.seconds), n.Second)
			continue
		}
		for _, d := range n.Took {
			result.took = append(result.took, int64(d))
		}
	}
	waited := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("interrupted")
	case err != nil || waited != nil:
		return nil, fmt.Errorf("the process that sends the load: %w", errors.Join(err, waited))
	}
	return result, nil
}
