package config

import (
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// warmValue is a number of connections, or the cap, which is negative.
type warmValue struct{ p *int }

// wholeCap is how people say that all connections of the cap are kept warm.
const wholeCap = "cap"

// Allowed implements [value.Value].
func (v warmValue) Allowed() string { return "0 to the cap, or cap for all of it" }

// Text implements [value.Value].
func (v warmValue) Text() string {
	if *v.p < 0 {
		return wholeCap
	}
	return strconv.Itoa(*v.p)
}

// Set implements [value.Value].
func (v warmValue) Set(text string) error {
	if text == wholeCap {
		*v.p = -1
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return value.Invalid("number", text, "a whole number from "+v.Allowed())
	}
	*v.p = n
	return nil
}
