package profile

// Traffic counts the messages that have passed over a connection since its session began. Messages that the proxy itself sent and
// the greeting, which the proxy sends to the client, do not count.
type Traffic struct {
	Sent     uint64 // whole messages from the client, including those that the [Boundary] dropped, but not what it left unread ([Keep])
	Received uint64 // whole messages from the server
	// SendingMessage and ReceivingMessage report whether another message has begun in that direction and not ended.
	SendingMessage, ReceivingMessage bool
}

// begun returns how many messages have begun: the whole ones, and perhaps one more.
func begun(whole uint64, another bool) uint64 {
	if another {
		whole++
	}
	return whole
}
