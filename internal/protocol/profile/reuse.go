package profile

// Reuse is the way in which the proxy proves that a connection is clean after a session.
type Reuse int

const (
	// OneShot: it does not. A connection serves one session and is replaced.
	OneShot Reuse = iota
	// Lockstep: the server answers every message with exactly one message, in order, and sends nothing else. A connection is clean
	// when as many whole messages have come back as were sent; those of the reset are the last. (A ping would prove nothing: many
	// servers answer pings before queued messages.)
	Lockstep
	// Fenced: the server acknowledges the reset in order, after everything that it sends to the session, and the proxy can
	// distinguish the acknowledgement from any answer to the client.
	Fenced
	// Tagged: every message from the server carries the tag of a task that the client began, and a task has a last message.
	Tagged
	// Quiet: the server acknowledges the reset, but the acknowledgement may overtake late results, so the proxy waits for a time
	// without messages. That proves nothing, so a profile must accept it with "unsafe: quiet".
	Quiet
)

var reuseNames = []string{"one-shot", "lockstep", "fenced", "tagged", "quiet"}

// String returns the word for it in YAML.
func (r Reuse) String() string { return reuseNames[r] }
