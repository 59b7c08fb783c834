package config

import (
	"fmt"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// connectionsValue is a cap, or auto for what the server publishes, which is negative.
type connectionsValue struct{ p *int }

// autoConnections is how people say that the server publishes how many connections it takes.
const autoConnections = "auto"

// Allowed implements [value.Value].
func (v connectionsValue) Allowed() string { return fmt.Sprintf("1 to %d, or auto", maxConnections) }

// Text implements [value.Value].
func (v connectionsValue) Text() string {
	if *v.p < 0 {
		return autoConnections
	}
	return strconv.Itoa(*v.p)
}

// Set implements [value.Value].
func (v connectionsValue) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case text == autoConnections:
		n = -1
	case err != nil || n < 1 || n > maxConnections:
		return value.Invalid("number", text, fmt.Sprintf("a whole number from %s", v.Allowed()))
	}
	*v.p = n
	return nil
}
