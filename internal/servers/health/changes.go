package health

// Changes returns what has changed since it was last called, in this order, for logs and statistics.
func (t *Tracker) Changes() []Change {
	changes := t.changes
	t.changes = nil
	return changes
}

// Change is a [ReachabilityChange], [CircuitChange], [OutlierChange], [StallChange], [CeilingChange], [LagChange] or [PredialChange].
type Change interface{ change() }

// ReachabilityChange reports whether connections can be established, and if not why.
type ReachabilityChange struct {
	Reachable bool
	Reason    string
}

// CircuitChange is the new state of the circuit, and why it is open.
type CircuitChange struct {
	State  CircuitState
	Reason string
}

// OutlierChange reports whether the server is ejected because far more sessions fail on it than on its peers.
type OutlierChange struct {
	Ejected bool
	Reason  string
}

// CeilingChange tells that the server is full, or with a ceiling of 0 that it may have as many connections as its cap again.
type CeilingChange struct{ Ceiling, Cap int }

// PredialChange tells whether the server refuses connections that are dialed ahead of clients, and why.
type PredialChange struct {
	Refused bool
	Reason  string
}

func (ReachabilityChange) change() {}
func (CircuitChange) change()      {}
func (OutlierChange) change()      {}
func (CeilingChange) change()      {}
func (PredialChange) change()      {}
