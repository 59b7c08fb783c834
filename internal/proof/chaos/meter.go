package chaos

import (
	"sync"
	"time"
)

// meter counts the connections that a hostile server sees, as that server sees them. Its methods may be called from any
// goroutine.
type meter struct {
	mu       sync.Mutex
	open     int         // guarded by mu
	peak     int         // guarded by mu
	attempts int         // guarded by mu
	recent   []time.Time // guarded by mu: of attempts, within the last second
	burst    int         // guarded by mu: most attempts within one second
}

// attempt counts a connection attempt at the given time.
func (m *meter) attempt(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempts++
	gone := 0
	for gone < len(m.recent) && at.Sub(m.recent[gone]) >= time.Second {
		gone++
	}
	m.recent = append(m.recent[:0], m.recent[gone:]...)
	m.recent = append(m.recent, at)
	m.burst = max(m.burst, len(m.recent))
}

// entered counts a connection as open, and left as closed.
func (m *meter) entered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	m.peak = max(m.peak, m.open)
}

func (m *meter) left() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
}

// reading is a snapshot of a meter.
type reading struct{ open, peak, attempts, burst int }

func (m *meter) read() reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reading{m.open, m.peak, m.attempts, m.burst}
}
