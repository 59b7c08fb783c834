package handshake

import (
	"log/slog"
	"sync"
)

// lastGood keeps the last good result of what is read for each dial. A file may be missing or half-written while it is replaced: dials then use
// what was read before, since that is not the server's fault. Any goroutine may use it.
type lastGood[T any] struct {
	mu      sync.Mutex
	value   T      // guarded by mu
	valid   bool   // guarded by mu: value has been read
	failure string // guarded by mu: why value is no longer up to date; empty if it is
}

// or returns value if err is nil, otherwise the last good one, or err if there is none. The log shows when that begins and ends; nil for no log.
func (l *lastGood[T]) or(log *slog.Logger, value T, err error) (T, error) {
	kept, was, failure, err := l.keep(value, err)
	switch {
	case log == nil || failure == was:
	case failure != "":
		log.Warn("files for dialing are bad: what was read before stays in force", "reason", failure)
	default:
		log.Info("files for dialing are in order again")
	}
	return kept, err
}

// keep returns what or does, and the failure before and now.
func (l *lastGood[T]) keep(value T, err error) (kept T, was, failure string, failed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !l.valid {
		return value, "", "", err
	}
	was = l.failure
	if l.failure = ""; err != nil {
		l.failure = err.Error()
	} else {
		l.value, l.valid = value, true
	}
	return l.value, was, l.failure, nil
}
