// Command polite shows what the module's parts do.
//
//	polite lab            lists the experiments
//	polite lab NAME       runs one
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := lab(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "polite:", err)
		os.Exit(1)
	}
}
