package retry

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/observe"
)

// Try is what one attempt of a failed call came to.
type Try struct {
	Status         int           // zero if Err
	Err            error         // nil if Status
	NeverProcessed bool          // positive proof that the provider did not act on it, looked for where it matters
	Refused        bool          // this client did not send it
	Wait           time.Duration // what was waited afterwards; zero for the last one
}

// Error is how a call ends that has no response to return: its attempts, and
// why there was no other. An exhausted call whose last attempt was answered
// returns that response and no error.
//
// errors.Is and errors.As find the errors of all attempts, and if the caller's
// context ended, its error and its cause.
type Error struct {
	Method string // of the request
	Host   string // scheme://host:port
	Tries  []Try  // every attempt in its order; of more than 1,000, the last
	Sent   int    // how many attempts were sent

	Status int                // of the last response, which was given up for a retry; zero if there was none
	Signal headerparse.Signal // what that response said about limits
	Reason observe.Reason     // why there was no further attempt

	ended []error // the context's error, and its cause if that is another
}

const (
	maxTries = 1000
	maxShown = 5
)

// Error tells the attempts and what they ended with. It shows no path, query or
// header.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "retry: %s %s failed", e.Method, e.Host)
	switch {
	case e.Sent == 0:
		b.WriteString(" unsent")
	case e.Sent > 1:
		fmt.Fprintf(&b, " after %d attempts", e.Sent)
	}
	if len(e.ended) > 0 {
		b.WriteString(", for its context ended (" + e.ended[len(e.ended)-1].Error() + ")")
	} else if why := explained[e.Reason]; why != "" {
		b.WriteString(" (" + why + ")")
	}
	shown := e.Tries[max(0, len(e.Tries)-maxShown):]
	if n := len(shown); n > 0 && len(e.ended) > 0 && shown[n-1].Err == e.ended[0] {
		shown = shown[:n-1] // said already
	}
	sep := ": "
	if len(e.Tries) > maxShown {
		sep = ": …, "
	}
	for i := 0; i < len(shown); {
		text, same := shown[i].text(), 1
		for i+same < len(shown) && shown[i+same].text() == text {
			same++
		}
		b.WriteString(sep + text)
		if sep = ", "; same > 1 {
			fmt.Fprintf(&b, " (%d times)", same)
		}
		i += same
	}
	return b.String()
}

func (t Try) text() string {
	if t.Err != nil {
		return messageOf(t.Err)
	}
	return fmt.Sprintf("status %d", t.Status)
}

// explained says why there was no further attempt, for whoever reads the error.
var explained = map[observe.Reason]string{
	observe.Attempts:      "MaxAttempts are used up",
	observe.Budget:        "the retry budget is spent",
	observe.Deadline:      "the next wait would outlive the deadline or MaxElapsed",
	observe.TooLong:       "the provider's wait is over MaxRetryAfter",
	observe.NotReplayable: "not sent again, for its body cannot be read again",
	observe.NotSafe:       "not sent again, for it may have been processed; a key or WithIdempotent would allow it",
	observe.NotRetryable:  "another attempt would fare no better",
	observe.Refused:       "refused by this client",
}

// messageOf is an error's message without the URLs that the *url.Errors in it
// show.
func messageOf(err error) string {
	text := err.Error()
	eachURL(err, func(u *url.Error) {
		text = strings.ReplaceAll(text, u.Error(), messageOf(u.Err))
	})
	return text
}

// shown is an error for hooks: one that may be printed. A base made of an
// http.Client puts the URL into its errors, with path and query.
func shown(err error) error {
	if err = withoutURL(err); err == nil {
		return nil
	}
	if text := messageOf(err); text != err.Error() {
		return &redacted{text, err}
	}
	return err
}

// redacted is an error whose message shows no URL.
type redacted struct {
	text string
	err  error
}

func (e *redacted) Error() string { return e.text }
func (e *redacted) Unwrap() error { return e.err }

// eachURL calls do for the first *url.Error of every branch of an error.
func eachURL(err error, do func(*url.Error)) {
	for err != nil {
		if u, ok := err.(*url.Error); ok && u.Err != nil {
			do(u)
			return
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, branch := range e.Unwrap() {
				eachURL(branch, do)
			}
			return
		default:
			return
		}
	}
}

// Timeout reports whether time ran out: the caller's, or in the last attempt.
func (e *Error) Timeout() bool {
	if len(e.ended) > 0 {
		return isTimeout(e.ended[0])
	}
	return len(e.Tries) > 0 && isTimeout(e.Tries[len(e.Tries)-1].Err)
}

// Unwrap returns why the context ended, if it did, and the errors of the
// attempts, the last one first.
func (e *Error) Unwrap() []error {
	all := e.ended[:len(e.ended):len(e.ended)]
	for i := len(e.Tries) - 1; i >= 0; i-- {
		if err := e.Tries[i].Err; err != nil {
			all = append(all, err)
		}
	}
	return all
}

// endOf returns the errors that say how a context ended; of one that goes on,
// the caller cancelled the request itself (Request.Cancel).
func endOf(ctx context.Context) []error {
	err := ctx.Err()
	if err == nil {
		return []error{context.Canceled}
	}
	if cause := context.Cause(ctx); cause != nil && cause != err {
		return []error{err, cause}
	}
	return []error{err}
}
