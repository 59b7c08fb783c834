//go:build !linux || portableloop

package load

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/loop"
)

// pacer calls a function on a loop at a time. It is owned by the loop's goroutine.
type pacer struct {
	loop  *loop.Loop
	timer loop.Timer
	ring  func()
}

// start makes the pacer ready to call ring on the loop.
func (p *pacer) start(l *loop.Loop, ring func()) error {
	p.loop, p.ring = l, ring
	return nil
}

// set has the function called after d, instead of when it was to be called before.
func (p *pacer) set(d time.Duration) { p.timer.Set(p, max(d, 0), 0) }

// Loop implements [loop.Owner].
func (p *pacer) Loop() *loop.Loop { return p.loop }

// Expired implements [loop.Owner].
func (p *pacer) Expired(*loop.Timer) { p.ring() }

// stop ends the pacer.
func (p *pacer) stop() { p.timer.Stop() }
