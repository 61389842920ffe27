// Command generate writes the list of messages that examples/sms sends. All
// numbers are of ranges kept free for fiction.
//
//	go run ./generate > messages.csv
package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"strings"
)

func main() {
	if err := write(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// write makes the same list every time.
func write(w io.Writer) error {
	r := rand.New(rand.NewPCG(1, 3))
	var rows [][]string
	for _, s := range senders {
		for n := range s.messages {
			id := fmt.Sprintf("%s-%03d", s.name, n+1)
			rows = append(rows, []string{id, s.number, recipient(r), s.text(r)})
		}
	}
	r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	out := csv.NewWriter(w)
	if err := out.Write([]string{"id", "from", "to", "text"}); err != nil {
		return err
	}
	return out.WriteAll(rows)
}

func (s sender) text(r *rand.Rand) string {
	text := pick(r, s.texts)
	for strings.Contains(text, "{") {
		before, rest, _ := strings.Cut(text, "{")
		field, after, _ := strings.Cut(rest, "}")
		text = before + fill(r, field) + after
	}
	return text
}

func fill(r *rand.Rand, field string) string {
	switch field {
	case "time":
		return fmt.Sprintf("%d:%02d", 8+r.IntN(10), 15*r.IntN(4))
	case "code":
		return fmt.Sprintf("%06d", r.IntN(1_000_000))
	case "order":
		return fmt.Sprintf("%c%05d", 'A'+rune(r.IntN(26)), r.IntN(100_000))
	case "amount":
		return fmt.Sprintf("%d.%02d", 5+r.IntN(195), r.IntN(100))
	case "n":
		return fmt.Sprint(2 + r.IntN(8))
	}
	return pick(r, words[field])
}

func recipient(r *rand.Rand) string {
	switch r.IntN(4) {
	case 0:
		return fmt.Sprintf("+447700900%03d", r.IntN(1000))
	case 1:
		return fmt.Sprintf("+336399800%02d", r.IntN(100))
	case 2:
		return fmt.Sprintf("+491713920%03d", r.IntN(100))
	default:
		return fmt.Sprintf("+1%d55501%02d", []int{212, 312, 415, 617}[r.IntN(4)], r.IntN(100))
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }
