// Package redact keeps passwords out of errors.
package redact

import (
	"regexp"
	"strings"
)

// quoted is how Redis quotes the arguments of a command that it does not know.
// Of AUTH, and of HELLO, these are the password.
var quoted = regexp.MustCompile(`(?is)(with args).*`)

// Text returns text with the secrets crossed out, and without what a server
// quotes of a command. An empty secret is none.
func Text(text string, secrets ...string) string {
	text = quoted.ReplaceAllString(text, "$1 ***")
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

// Error returns err, unless its text is not as [Text] has it: then an error with
// the clean text, which keeps nothing of err.
func Error(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := Text(text, secrets...)
	if clean == text {
		return err
	}
	return &cleaned{clean}
}

type cleaned struct{ text string }

func (e *cleaned) Error() string { return e.text }
