package redact

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestError(t *testing.T) {
	require.NoError(t, Error(nil, "hunter2"))
	plain := fmt.Errorf("dial: %w", io.EOF)
	assert.Same(t, plain, Error(plain, "hunter2", ""), "nothing to hide")

	secret := fmt.Errorf("dial redis://:hunter2@host: %w", io.EOF)
	clean := Error(secret, "", "hunter2")
	assert.EqualError(t, clean, "dial redis://:***@host: EOF")
	assert.NoError(t, errors.Unwrap(clean), "nothing inside can tell")
}
