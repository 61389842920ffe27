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

// What Redis quotes of a command that it does not know may be a password that
// nobody has named (Redis 5 wrote it in backticks).
func TestTextQuotesNothing(t *testing.T) {
	for text, want := range map[string]string{
		"ERR unknown command 'AUTH', with args beginning with: 'bob' 'hunter2' ":     "ERR unknown command 'AUTH', with args ***",
		"ERR unknown command `AUTH`, with args beginning with: `hunter2`, ":          "ERR unknown command `AUTH`, with args ***",
		"dial: ERR UNKNOWN COMMAND 'hello', WITH ARGS BEGINNING WITH: '3' 'hunter2'": "dial: ERR UNKNOWN COMMAND 'hello', WITH ARGS ***",
		"İ with args 'hunter2'": "İ with args ***",
		"WRONGPASS invalid":     "WRONGPASS invalid",
	} {
		assert.Equal(t, want, Text(text))
	}
	clean := Error(errors.New("unknown command 'AUTH', with args beginning with: 'hunter2'"))
	assert.EqualError(t, clean, "unknown command 'AUTH', with args ***")
}
