package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// instances are the two processes, as the one that started them sees them.
type instances []*process

type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

func startInstances(ctx context.Context, address string) (instances, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var all instances
	for range processes {
		p := &process{command: exec.CommandContext(ctx, self)}
		p.command.Env = append(os.Environ(), instanceVariable+"="+address)
		p.command.Stderr = os.Stderr
		out, err := p.command.StdoutPipe()
		if err == nil {
			p.out = bufio.NewScanner(out)
			p.in, err = p.command.StdinPipe()
		}
		if err == nil {
			err = p.command.Start()
		}
		if err != nil {
			return nil, errors.Join(err, all.stop())
		}
		all = append(all, p)
	}
	for _, p := range all {
		if line, err := p.read(ctx); err != nil || line != "ready" {
			return nil, errors.Join(fmt.Errorf("an instance did not start: %w", err), all.stop())
		}
	}
	return all, nil
}

// round lets all send their requests at once, and returns how many were
// admitted.
func (all instances) round(ctx context.Context, way, key string) (admitted int, err error) {
	all.write(way + " " + key)
	if way == gated {
		for _, p := range all {
			if line, err := p.read(ctx); err != nil || line != "read" {
				return 0, fmt.Errorf("an instance answered %q: %w", line, err)
			}
		}
		all.write("write")
	}
	for _, p := range all {
		line, err := p.read(ctx)
		if err != nil {
			return 0, err
		}
		n, err := number(line)
		if err != nil {
			return 0, err
		}
		admitted += n
	}
	return admitted, nil
}

// write tells all the same. One that cannot hear it does not answer either.
func (all instances) write(line string) {
	for _, p := range all {
		fmt.Fprintln(p.in, line)
	}
}

func (p *process) read(ctx context.Context) (string, error) {
	if p.out.Scan() {
		return p.out.Text(), nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := p.out.Err(); err != nil {
		return "", err
	}
	return "", errors.New("an instance has ended")
}

// stop lets all end.
func (all instances) stop() error {
	var errs []error
	for _, p := range all {
		_ = p.in.Close()
		errs = append(errs, p.command.Wait())
	}
	return errors.Join(errs...)
}
