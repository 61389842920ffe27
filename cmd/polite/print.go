package main

import (
	"context"
	"fmt"
	"strings"

	labs "github.com/politehttp/polite/cmd/polite/internal/lab"
)

func lab(args []string) error {
	for _, e := range labs.All() {
		r, err := e.Run(context.Background(), labs.Options{Seed: 1})
		if err != nil {
			return err
		}
		for _, t := range r.Tables {
			fmt.Println(t.Title)
			fmt.Println(strings.Join(t.Columns, "  "))
			for _, row := range t.Rows {
				for _, c := range row {
					fmt.Print(labs.Text(c), "  ")
				}
				fmt.Println()
			}
		}
		for _, f := range r.Figures {
			fmt.Println(f)
		}
	}
	return nil
}
