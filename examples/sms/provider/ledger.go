package provider

import (
	"path/filepath"
	"time"

	"github.com/politehttp/polite/examples/sms/journal"
)

const (
	ledgerFile   = "ledger.jsonl"
	attemptsFile = "attempts.jsonl"
)

// Delivery is a line of the ledger: a message that went out and will be billed.
// It counts by ID, which stood in the message. Key and Hash are there for a
// provider that is started again: what it must answer to a key that it knows.
type Delivery struct {
	ID       string    `json:"id"`
	From     string    `json:"from"`
	Segments int64     `json:"segments"`
	At       time.Time `json:"at"`
	Key      string    `json:"key,omitempty"`
	Hash     string    `json:"hash,omitempty"` // a hash of the payload
}

// Attempt is one arrival of a valid message, be it the tenth of the same.
type Attempt struct {
	At     time.Time `json:"at"`
	From   string    `json:"from"`
	Status int       `json:"status"`          // 0: processed, and then the connection was dropped
	Limit  string    `json:"limit,omitempty"` // of a 429: the limit that refused
}

// Ledger reads what the provider with its state in dir has delivered, in order.
func Ledger(dir string) ([]Delivery, error) {
	return journal.Read[Delivery](filepath.Join(dir, ledgerFile))
}

// Attempts reads the attempts that the provider with its state in dir has met.
func Attempts(dir string) ([]Attempt, error) {
	return journal.Read[Attempt](filepath.Join(dir, attemptsFile))
}
