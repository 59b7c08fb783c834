package backend

import "time"

// Description is what an operator may want to know of a connection.
type Description struct {
	Number      uint32
	State       string        // as docs/architecture.md names them
	Established time.Duration // ago
	Sessions    int           // that it has served, the present one included
	RoundTrip   time.Duration // of the last answered ping; 0 for none
	Protocol    string        // the subprotocol; empty for none
	Boundary    string        // what the profile waits for
}

// Describe returns the connection's description. It is called on the connection's loop.
func (c *Conn) Describe() Description {
	return Description{
		Number: c.number, State: c.state.String(), Established: -c.established.Until(), Sessions: int(c.lease),
		RoundTrip: time.Duration(c.roundTrip) * time.Microsecond, Protocol: c.Protocol(), Boundary: c.boundary.Phase(),
	}
}
