package redisstore

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHashSlot(t *testing.T) {
	for key, want := range map[string]int{ // as CLUSTER KEYSLOT says
		"": 0, "123456789": 12739, "a": 15495, "foo": 12182, "{foo}bar": 12182, "x{foo}{bar}": 12182,
		"{}foo": 9500, "foo{bar": 15278, "{user1000}.following": 3443, "{user1000}.followers": 3443,
	} {
		assert.Equal(t, want, hashSlot(key), "%q", key)
	}
}

type clusteredFake struct {
	down string
	is   bool
}

func (c *clusteredFake) Clustered() bool { return c.is }

func (c *clusteredFake) Eval(_ context.Context, _ *Script, keys, _ []string) ([]string, error) {
	if keys[0] == c.down {
		return nil, errReset
	}
	return nil, nil
}

// A part of a cluster that is down opens its own circuit; without a cluster
// there is one for all.
func TestPartsHaveCircuits(t *testing.T) {
	for _, cluster := range []bool{true, false} {
		s := &Store{Client: &clusteredFake{down: "foo", is: cluster}}
		ask := func(key string) error {
			_, err := s.eval(t.Context(), anyScript, []string{key}, nil)
			return err
		}
		for range openAfter {
			require.ErrorIs(t, ask("foo"), errReset)
		}
		assert.True(t, isOpen(ask("foo")))
		assert.True(t, isOpen(ask("{foo}2")), "of the same slot")
		assert.Equal(t, !cluster, isOpen(ask("a")), "of another part")
	}
}
