package session

import "fmt"

func (s *Session) id() string     { return fmt.Sprint(s.record.ID) }
func (s *Session) number() uint64 { return s.record.ID }
func (s *Server) lookup(n uint64) (*Session, bool) {
	var found *Session
	for i, l := range s.options.Loops.Loops() {
		l.Call(func() {
			for session := range s.shards[i].sessions {
				if session.record.ID == n {
					found = session
				}
			}
		})
	}
	return found, false
}
