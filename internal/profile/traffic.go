package profile

// Traffic is what has passed over a connection since its session began. What the proxy itself has sent and the replayed greeting
// do not count.
type Traffic struct {
	Sent     uint64 // whole messages of the client, also those that the [Boundary] dropped, but not what it left unread ([Keep])
	Received uint64 // whole messages from the server
	// SendingMessage and ReceivingMessage tell whether another message is under way in that direction.
	SendingMessage, ReceivingMessage bool
}

// begun counts the messages that have begun.
func begun(whole uint64, another bool) uint64 {
	if another {
		whole++
	}
	return whole
}
