//go:build !linux || portableloop

package load

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// pacer calls a function on a loop at a given time. The loop's goroutine owns it.
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

// set makes the pacer call the function after d. It replaces an earlier call of set.
func (p *pacer) set(d time.Duration) { p.timer.Set(p, max(d, 0), 0) }

// Loop implements [loop.Owner].
func (p *pacer) Loop() *loop.Loop { return p.loop }

// Expired implements [loop.Owner].
func (p *pacer) Expired(*loop.Timer) { p.ring() }

// stop ends the pacer.
func (p *pacer) stop() { p.timer.Stop() }
