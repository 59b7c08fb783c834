package backend

import (
	"strings"
	"testing"
)

// What the table does not allow panics before anything has changed, and every state leads to the end.
func TestTransitions(t *testing.T) {
	for from := range state(states) {
		for next := range state(states) {
			c := &Conn{state: from}
			panicked := func() (message string) {
				defer func() { message, _ = recover().(string) }()
				c.to(next)
				return ""
			}()
			switch allowed := transitions[from].has(next); {
			case allowed && (panicked != "" || c.state != next):
				t.Errorf("%v to %v: %q", from, next, panicked)
			case !allowed && (!strings.Contains(panicked, from.String()+" to "+next.String()) || c.state != from):
				t.Errorf("%v to %v: %q, now %v", from, next, panicked, c.state)
			}
		}
		if from != gone && !transitions[from].has(gone) {
			t.Errorf("%v does not lead to %v, as it must after a panic", from, gone)
		}
		if !ended.has(from) && !transitions[from].has(closing) {
			t.Errorf("a connection that is %v cannot be closed in order", from)
		}
	}
}
