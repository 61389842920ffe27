package redact_test

import (
	"errors"
	"fmt"

	"github.com/politehttp/polite/redisstore/internal/redact"
)

func Example() {
	err := errors.New("dial redis://:hunter2@127.0.0.1: refused")
	fmt.Println(redact.Error(err, "hunter2"))
	// Output: dial redis://:***@127.0.0.1: refused
}
