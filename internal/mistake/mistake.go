// Package mistake keeps a mistake in the program from costing more than the session or connection that it was made for: a panic
// in one's book-keeping must not end thousands of others.
package mistake

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// Err is what those are told who wait for something that a panic has ended.
var Err = errors.New("internal error")

// Guard logs panics with their stacks and counts them. Its methods may be called from any goroutine. With a nil pointer panics
// are not recovered from, as is right in tests.
type Guard struct {
	log   *slog.Logger
	count atomic.Uint64
}

// NewGuard returns a guard that logs to log.
func NewGuard(log *slog.Logger) *Guard { return &Guard{log: log} }

// Recover is to be deferred. If there is a panic, it is logged and counted, and then, unless it is nil, is called.
func (g *Guard) Recover(where string, then func()) {
	if g == nil {
		return
	}
	if value := recover(); value != nil {
		g.Caught(where, value)
		if then != nil {
			then()
		}
	}
}

// Caught logs and counts a panic that was recovered from, by the deferred function. It panics again if going on would be worse.
func (g *Guard) Caught(where string, value any) {
	stack := debug.Stack()
	if !survivable(value, stack) {
		panic(value)
	}
	g.count.Add(1)
	g.log.Error("internal error: please report it", "where", where, "panic", fmt.Sprint(value), "stack", string(stack))
}

// Count returns how many panics there were.
func (g *Guard) Count() uint64 {
	if g == nil {
		return 0
	}
	return g.count.Load()
}

// Unharmed is a value of a panic that says that no book was left half-written and no lock held.
type Unharmed interface{ Unharmed() }

// survivable tells whether the program may go on. A panic in the midst of the pools' code leaves their lock held, and with it
// everybody waiting for ever.
func survivable(value any, stack []byte) bool {
	if _, ok := value.(Unharmed); ok {
		return true
	}
	return !bytes.Contains(stack, []byte("/internal/pool.(*"))
}
