package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheCommittedListIsTheGeneratedOne(t *testing.T) {
	var got bytes.Buffer
	require.NoError(t, write(&got))
	want, err := os.ReadFile("../messages.csv")
	require.NoError(t, err)
	assert.Equal(t, string(want), got.String(), "run: go generate ./examples/sms")
}
