package pacer

import "context"

// Priority is the class of a call. Among calls of one class and the same keys
// the order is that of arrival.
type Priority int

const (
	Interactive Priority = iota // before Background; the default
	Background                  // after Interactive, but one of every ten that leave
)

// fairTurn is how many Interactive calls leave in a row before a Background
// one that waits has its turn.
const fairTurn = 9

type priorityKey struct{}

// WithPriority returns a context whose calls wait in the given class. A call
// somebody is waiting for is Interactive, which is the default; a nightly batch
// is Background. While both wait for a key, one Background call leaves after
// every nine Interactive ones: it is never starved.
func WithPriority(ctx context.Context, class Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, class)
}

func priorityOf(ctx context.Context) Priority {
	if class, _ := ctx.Value(priorityKey{}).(Priority); class > Interactive {
		return Background
	}
	return Interactive
}
