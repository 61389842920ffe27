package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/rueidis"

	"github.com/politehttp/polite/redisstore/internal/redact"
)

// A Client is how Redis is reached. [Rueidis] makes the one to use unless the
// program has a go-redis client already, which redisstore/goredis takes.
//
// Whoever writes another one keeps to this:
//
//   - Eval runs the script once: EVALSHA, and EVAL if Redis answers NOSCRIPT.
//   - It never sends again what Redis may have run. Only what provably did not
//     run may be sent again: a connection that was never made, and the answers
//     NOSCRIPT, MOVED and ASK.
//   - It should end soon after the context does. The Store does not wait for
//     it, but the goroutine that runs it lives as long as the call.
//   - What Redis answers instead of a result is a [*ReplyError], or an error
//     with a method RedisError(), as go-redis has it. Every other error counts
//     as Redis not being there.
//   - It is safe for concurrent use.
//
// It may have a method Clustered() bool, which does not wait. While that reports
// true, each part of the slots has a circuit of its own, so that a server which
// is down does not keep the others from being asked.
//
// It may have a method AtOnce() int: how many scripts it sends at once. More than
// that are not given to it: to wait for a connection of a pool would look like a
// Redis that does not answer. Without it, and for 0, there are 250.
type Client interface {
	// Eval returns the reply as text: one element for a string or an integer,
	// one for each element of a flat array. A nil in it is an error.
	Eval(ctx context.Context, s *Script, keys, args []string) ([]string, error)
}

// A ReplyError is what Redis answered instead of a result, for example
// "WRONGTYPE Operation against a key holding the wrong kind of value".
type ReplyError struct {
	Text string // as Redis wrote it, without the leading minus
}

// Error returns what Redis wrote.
func (e *ReplyError) Error() string { return "redisstore: Redis answered: " + e.Text }

// Code returns the first word of the text, such as WRONGTYPE. Before version 7
// Redis wraps what a command in a script answers in a sentence of its own; then
// it is the first word of what the command answered.
func (e *ReplyError) Code() string {
	text := e.Text
	if strings.HasPrefix(text, "ERR Error running script") {
		if _, inner, ok := strings.Cut(text, ": -"); ok {
			text = inner
		}
	}
	code, _, _ := strings.Cut(text, " ")
	return code
}

// replied returns what Redis answered, if err is an answer of Redis.
func replied(err error) (*ReplyError, bool) {
	var reply *ReplyError
	if errors.As(err, &reply) {
		return reply, true
	}
	if text, ok := rueidis.IsRedisErr(err); ok {
		return &ReplyError{Text: text.Error()}, true
	}
	var foreign interface {
		error
		RedisError()
	}
	if errors.As(err, &foreign) {
		return &ReplyError{Text: foreign.Error()}, true
	}
	return nil, false
}

// cleaned turns an answer of Redis into a ReplyError, and takes the secrets out of
// it and of everything else, and what a server quotes of a command.
func cleaned(err error, secrets ...string) error {
	reply, ok := replied(err)
	if !ok {
		return redact.Error(err, secrets...)
	}
	if text := redact.Text(reply.Text, secrets...); text != reply.Text {
		return &ReplyError{Text: text}
	}
	return reply
}

// noScript reports whether Redis does not know the script, so that it did not
// run.
func noScript(err error) bool {
	reply, ok := replied(err)
	return ok && reply.Code() == "NOSCRIPT"
}

// errReply is what a script must not answer.
var errReply = &ReplyError{Text: "the reply is neither text, nor an integer, nor a flat array of those"}

// A brokenError is a panic of a client library. Something is wrong with one
// call, not with Redis.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return "redisstore: the client library panicked: " + e.text }
