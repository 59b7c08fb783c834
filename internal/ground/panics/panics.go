// Package panics recovers from panics and counts them: a bug that shows in one session or connection must not end thousands of others.
package panics

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// Err is the error of an operation that a panic has ended.
var Err = errors.New("internal error")

// Guard recovers from panics, logs them with their stacks, and counts them. Any goroutine may call its methods. A nil pointer
// recovers from nothing, so that tests see panics.
type Guard struct {
	log   *slog.Logger // static
	count atomic.Uint64
}

// NewGuard returns a guard that logs to log.
func NewGuard(log *slog.Logger) *Guard { return &Guard{log: log} }

// Recover must be deferred. After a panic it logs and counts the panic, and calls then, unless that is nil. where names the code that
// has panicked, for the log.
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

// Caught logs and counts a panic with this value. It is called by the deferred function that has recovered from the panic. It panics
// again if the program must not continue.
func (g *Guard) Caught(where string, value any) {
	stack := debug.Stack()
	if !survivable(value, stack) {
		panic(value)
	}
	g.count.Add(1)
	g.log.Error("internal error: please report it", "where", where, "panic", fmt.Sprint(value), "stack", string(stack))
}

// Count returns how many panics the guard has recovered from.
func (g *Guard) Count() uint64 {
	if g == nil {
		return 0
	}
	return g.count.Load()
}

// Unharmed is implemented by the value of a panic that has left no data half-changed and no lock held.
type Unharmed interface{ Unharmed() }

// survivable reports whether the program can continue. A panic in the code of the pools leaves their lock held, so that every session
// would wait forever.
func survivable(value any, stack []byte) bool {
	if _, ok := value.(Unharmed); ok {
		return true
	}
	return !bytes.Contains(stack, []byte("/internal/servers/pool.(*"))
}
