package profile

// compactTogether is how many sessions' records a Compactor allocates at once.
const compactTogether = 32

// Compactor moves what Boundaries remember of their sessions to fresh memory, those that are moved one after the other close together. The
// zero value is ready. Only one goroutine may use it at a time.
type Compactor struct{ room []session }

// Move moves what b remembers. It is called by who owns b, while none of b's methods runs.
func (c *Compactor) Move(b *Boundary) {
	if b.session == nil {
		return
	}
	if len(c.room) == 0 {
		c.room = make([]session, compactTogether)
	}
	c.room[0], b.session = *b.session, &c.room[0]
	c.room = c.room[1:]
}
