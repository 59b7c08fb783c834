package sim

import "sync"

// slots counts connections exactly. A connection counts from before its upgrade is accepted until the server starts to end it,
// which is before the client can see the end. Its methods may be called from any goroutine.
type slots struct {
	limit int // static; 0 for no limit

	mu                sync.Mutex
	open, peak        int
	accepted, refused uint64
}

// take takes a slot for a connection. It returns false if all are taken.
func (s *slots) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit > 0 && s.open >= s.limit {
		s.refused++
		return false
	}
	s.open++
	s.peak = max(s.peak, s.open)
	s.accepted++
	return true
}

// refuse counts an upgrade that was refused for a reason other than the limit.
func (s *slots) refuse() {
	s.mu.Lock()
	s.refused++
	s.mu.Unlock()
}

// giveBack counts an accepted upgrade as refused instead.
func (s *slots) giveBack() {
	s.mu.Lock()
	s.open--
	s.accepted--
	s.refused++
	s.mu.Unlock()
}

// release frees a slot.
func (s *slots) release() {
	s.mu.Lock()
	s.open = max(0, s.open-1) // all may have been freed meanwhile
	s.mu.Unlock()
}

// clear frees the slots of connections that ended with their loops.
func (s *slots) clear() {
	s.mu.Lock()
	s.open = 0
	s.mu.Unlock()
}

func (s *slots) stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Connections: s.open, Peak: s.peak, Accepted: s.accepted, Refused: s.refused}
}
