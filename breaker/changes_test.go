package breaker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnChangeMayUseTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Breaker
		var got []string
		inside := false
		b = exact(&Breaker{Failures: 1, OnChange: func(key string, from, to State) {
			require.False(t, inside, "told of a change within another")
			inside = true
			defer func() { inside = false }()
			got = append(got, fmt.Sprint(key, " ", from, ">", to))
			b.Open(key, time.Time{})
			b.Stats()
			if key == "a" && to == Open {
				do(t, b, "b", Failure)
			}
		}})
		do(t, b, "a", Failure)
		require.Equal(t, []string{"a closed>open", "b closed>open"}, got)
	})
}

func TestOnChangePanics(t *testing.T) {
	var got []string
	b := exact(&Breaker{Failures: 1, OnChange: func(key string, _, _ State) {
		if got = append(got, key); key == "a" {
			panic("a")
		}
	}})
	p := enter(t, b, "a")
	require.Panics(t, func() { p.Done(Failure, 0, time.Time{}) })
	do(t, b, "b", Failure)
	require.Equal(t, []string{"a", "b"}, got)
}
