package backend

import (
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// What the table does not allow panics before anything has changed, and every state leads to the end.
func TestTransitions(t *testing.T) {
	t.Parallel()
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

// docs/architecture.md draws the transitions, but those that only a panic makes.
func TestLifeIsDrawn(t *testing.T) {
	t.Parallel()
	of := make(map[string]state)
	var names []string
	for s := range state(states) {
		of[s.String()] = s
		names = append(names, s.String())
	}
	wstest.CheckDiagram(t, names, func(from, to string) bool {
		return transitions[of[from]].has(of[to]) && (of[to] != gone || of[from] == closing)
	})
}
