package sim

import "sync"

// slots counts the connections exactly: one is open from before its upgrade is accepted until its server has begun to
// end it, which is before the client can see the end.
type slots struct {
	limit int // static; 0 for no limit

	mu                sync.Mutex
	open, peak        int
	accepted, refused uint64
}

// take reserves a place for a connection, if there is one.
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

// refuse counts an upgrade that was refused for another reason than the limit.
func (s *slots) refuse() {
	s.mu.Lock()
	s.refused++
	s.mu.Unlock()
}

// giveBack turns an upgrade that was counted as accepted into one that was refused.
func (s *slots) giveBack() {
	s.mu.Lock()
	s.open--
	s.accepted--
	s.refused++
	s.mu.Unlock()
}

// release gives a place back.
func (s *slots) release() {
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
}

// clear gives back the places of connections that were cut by the end of their loops.
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
