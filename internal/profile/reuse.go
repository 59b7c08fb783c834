package profile

// Reuse is the way in which a connection is proven clean after a session.
type Reuse int

const (
	// OneShot: it is not; a connection serves one session and is replaced.
	OneShot Reuse = iota
	// Lockstep: the server answers every message with exactly one message, in order, and says nothing else. Then a
	// connection is clean when as many whole messages have come back as whole messages were sent, those of the reset
	// last. (A ping would prove nothing: many servers answer pings ahead of queued messages.)
	Lockstep
	// Fenced: the server acknowledges the reset in order, behind all that it says to the session, and the acknowledgement
	// can be told from any answer to the client.
	Fenced
	// Tagged: everything the server says bears the tag of a task that the client began, and a task has a last message.
	Tagged
	// Quiet: the reset is acknowledged, but late results may overtake, so a while without any is waited for. That
	// proves nothing; it is switched on by "unsafe: quiet" only.
	Quiet
)

var reuseNames = []string{"one-shot", "lockstep", "fenced", "tagged", "quiet"}

// String returns the word that YAML has for it.
func (r Reuse) String() string { return reuseNames[r] }
