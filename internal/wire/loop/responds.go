package loop

import (
	"context"
	"fmt"
)

// Responds returns nil as soon as each loop has called a function that was posted to it, which a busy one does between two batches of
// events. When ctx ends before, the error names a loop that has not. A loop that has stopped counts as one that has. It must not
// be called on a loop.
func (g *Group) Responds(ctx context.Context) error {
	loops := g.loops[:g.started.Load()]
	called := make(chan int, len(loops))
	missing := make(map[int]bool, len(loops))
	for i, l := range loops {
		if l.Post(func() { called <- i }) {
			missing[i] = true
		}
	}
	for len(missing) > 0 {
		select {
		case i := <-called:
			delete(missing, i)
		case <-ctx.Done():
			for i := range loops {
				if missing[i] {
					return fmt.Errorf("event loop %d does not respond: %w", i, ctx.Err())
				}
			}
		}
	}
	return nil
}
