package quota_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/politehttp/polite/quota"
)

func Example() {
	ctx := context.Background()
	segments := &quota.Quota{
		Name: "segments", Limit: 100, Period: quota.Day,
		OnLow: func(l quota.Left) { fmt.Printf("low: %d of %d left\n", l.Left, l.Limit) },
	}
	message, err := segments.Spend(ctx, "acme", 3)
	fmt.Println(message.Left, err)

	_, err = segments.Spend(ctx, "acme", 90)
	fmt.Println(err)

	_, err = segments.Spend(ctx, "acme", 8)
	var spent *quota.SpentError
	if errors.As(err, &spent) {
		fmt.Println("only", spent.Left)
	}

	// The first one was provably never sent.
	if err := segments.Refund(ctx, "acme", message); err != nil {
		fmt.Println(err)
	}
	last, err := segments.Spend(ctx, "acme", 8)
	fmt.Println(last.Left, err)
	// Output:
	// 97 <nil>
	// low: 7 of 100 left
	// <nil>
	// only 7
	// 2 <nil>
}

// A quota that survives a crash.
func ExampleOpenFile() {
	dir, err := os.MkdirTemp("", "quota")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	for range 2 { // as if the program ran twice
		file, err := quota.OpenFile(filepath.Join(dir, "spent"))
		if err != nil {
			fmt.Println(err)
			return
		}
		balance := &quota.Quota{Name: "credits", Limit: 10, Store: file}
		left, err := balance.Spend(context.Background(), "acme", 6)
		fmt.Println(left.Left, err)
		file.Close()
	}
	// Output:
	// 4 <nil>
	// 0 quota: "credits" is spent: 6 asked, 4 of 10 left, and it never resets
}
