package loop

import (
	"context"
	"errors"
	"testing"
)

// A group responds while all of its loops do, also one that sleeps, and when it was closed.
func TestResponds(t *testing.T) {
	g, err := NewGroup(Options{Max: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Responds(t.Context()); err != nil {
		t.Error(err)
	}
	gate, begun := make(chan struct{}), make(chan struct{})
	g.loops[1].Post(func() { close(begun); <-gate })
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Responds(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("loop 1 hangs: %v", err)
	}
	hung := make(chan error)
	ctx, cancel = context.WithCancel(t.Context())
	go func() { hung <- g.Responds(ctx) }()
	g.loops[0].Call(func() {}) // which comes after the function that Responds has posted, or before; Responds waits for loop 1 in any case
	select {
	case err := <-hung:
		t.Errorf("loop 1 hangs: %v", err)
	default:
	}
	close(gate)
	if err := <-hung; err != nil {
		t.Error(err)
	}
	cancel()
	g.Close()
	if err := g.Responds(t.Context()); err != nil {
		t.Errorf("closed: %v", err)
	}
}
