// Package redact keeps passwords out of errors.
package redact

import "strings"

// Error returns err, unless its text holds one of the secrets: then an error
// with the same text and the secret crossed out, which keeps nothing of err.
// An empty secret is none.
func Error(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := text
	for _, secret := range secrets {
		if secret != "" {
			clean = strings.ReplaceAll(clean, secret, "***")
		}
	}
	if clean == text {
		return err
	}
	return &cleaned{clean}
}

type cleaned struct{ text string }

func (e *cleaned) Error() string { return e.text }
