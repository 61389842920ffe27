package headerparse

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHarmless(t *testing.T) {
	for _, name := range harmlessNames {
		assert.True(t, isHarmless(name), "%s has no place of its own", name)
		assert.False(t, mightTell(name) || equalFold(name, "retry-after"), name)
	}
	for _, name := range []string{"", "A", "Retry-After", "X-Ratelimit-Limit"} {
		assert.False(t, isHarmless(name), name)
	}
}
