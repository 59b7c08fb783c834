package backend

// Outcome is what becomes of a connection when its lease ends.
type Outcome uint8

const (
	// Discarded: it is closed.
	Discarded Outcome = iota
	// Resetting: it is made clean, and closed if that fails.
	Resetting
	// Returned: it is idle again.
	Returned
)

// String returns the word for logs.
func (o Outcome) String() string { return [...]string{"discarded", "resetting", "returned"}[o] }
