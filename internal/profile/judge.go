package profile

// Traffic is what has passed over a connection since its session began. What the proxy itself has sent and the replayed greeting
// do not count.
type Traffic struct {
	Sent     uint64 // whole messages of the client, also those that the [Boundary] dropped, but not what it left unread ([Keep])
	Received uint64 // whole messages from the server
	// SendingMessage and ReceivingMessage tell whether another message is under way in that direction.
	SendingMessage, ReceivingMessage bool
}

// Verdict says what may become of a connection whose session has ended.
type Verdict int

const (
	// Discard: it cannot become clean, or it cannot be known.
	Discard Verdict = iota
	// Await: it becomes clean when what the server still owes has arrived.
	Await
	// Clean: it may serve the next session now.
	Clean
)

// counts tells whether counting messages is all that the profile needs.
func (p *Profile) counts() bool {
	return p.Reuse == Lockstep && (p.program == nil || p.spec.stateless && len(p.spec.unanswered)+len(p.spec.sticky)+len(p.alive()) == 0)
}

func (p *Profile) alive() []Message { return p.program.alive }

// Judge tells what may become of the connection, given what has passed over it. It knows nothing but counts: a connection
// whose profile needs more than that is discarded. A [Boundary] knows more.
func (p *Profile) Judge(t Traffic) Verdict {
	switch {
	case !p.counts() || t.SendingMessage || !p.Plausible(t):
		return Discard
	case t.Sent > t.Received || t.ReceivingMessage:
		return Await
	}
	return Clean
}

// Plausible tells whether the server keeps to the profile as far as can be seen. What it sends beyond that belongs to
// nobody, and must not reach a client.
func (p *Profile) Plausible(t Traffic) bool {
	if p.Reuse != Lockstep {
		return true
	}
	return begun(t.Received, t.ReceivingMessage) <= begun(t.Sent, t.SendingMessage)
}

// begun counts the messages that have begun.
func begun(whole uint64, another bool) uint64 {
	if another {
		whole++
	}
	return whole
}
