package relay

// This file puts a session's filters in front of its handlers, one chain for each direction:
//
//	the client's connection:     tap, rate, clientSide
//	the backend's connection:    tap, backendSide
//
// A tap comes first, so that it shows what arrives. A filter is there only while it has something to do: a session without taps and rates
// gets its connections' events itself, and pays nothing for them.

// compose makes the chains anew. It is called when a filter comes or goes, and when a leg begins. Nothing else in a session sets handlers.
func (s *Session) compose() {
	s.client.SetHandler(s.tap.BeforeClient(s.limited.throttle().Before((*clientSide)(s))))
	if conn := s.leg.conn; conn != nil {
		conn.Stream().SetHandler(s.tap.BeforeBackend(conn, (*backendSide)(s)))
	}
}
