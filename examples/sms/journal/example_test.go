package journal_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/politehttp/polite/examples/sms/journal"
)

func Example() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "done.jsonl")

	j, err := journal.Open(path, true, func(string) {})
	if err != nil {
		panic(err)
	}
	j.Append("one")
	j.Append("two")
	j.Close()

	fmt.Println(journal.Read[string](path))
	// Output: [one two] <nil>
}
