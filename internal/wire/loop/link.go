package loop

// Link stands in for the socket of a connection that has none of its own: what its handler writes goes to the link, which presents what is
// received ([Conn.Deliver]), and says when it has taken everything ([Conn.Taken]) and when nothing more can come ([Conn.End]). So a peer can
// be one connection for its handler although it comes over several sockets, one after the other. All methods are called on the loop that
// owns the connection.
type Link interface {
	// Write takes b, which the handler has written. It must not keep it.
	Write(b []byte)
	// Pending returns how many of the bytes written are not taken yet.
	Pending() int
	// Waits reports whether Pending is known to be more than 0, see [Conn.Stalled].
	Waits() bool
	// Interest is called when reading was paused or resumed, or the handler wants to see more while it is paused, see [Conn.Wants].
	Interest()
	// CloseWrite ends the stream towards the peer behind what was written before.
	CloseWrite()
	// Close is called once, when the handler has closed the connection.
	Close()
	// Carrier returns the connection with a socket that carries the link at present, which moves to other loops with it; nil for none.
	Carrier() *Conn
	// Leaving is called before the connection leaves its loop, and Joined once it is on the next one, for the link's timers.
	Leaving()
	Joined()
}

// Link makes a connection of the loop that has a link in place of a socket. It is called on the loop's goroutine.
func (l *Loop) Link(k Link, h Handler) *Conn {
	c := &Conn{handler: h, link: k, on: l}
	c.home.Store(l)
	return c
}

// Link returns what stands in for the connection's socket; nil if it has one.
func (c *Conn) Link() Link { return c.link }

// Wants reports whether the handler takes what is received, perhaps only to see whether the peer has said more, see Gather.
func (c *Conn) Wants() bool { return !c.paused || c.gathers }

// Deliver presents bytes that the link has received. What comes while reading is paused is kept, see Keep: the link calls ReportKept behind the last of
// several pieces.
func (c *Conn) Deliver(b []byte) {
	switch {
	case len(b) == 0 || c.ended:
	case c.paused:
		c.keepMore(b)
	case len(c.early) > 0: // it is presented after this event, before what comes now
		c.early = append(c.early, b...)
	case len(c.held) > 0:
		held := append(c.held, b...)
		c.held = nil
		c.receive(held)
	default:
		c.receive(b)
	}
}

// Taken says that the link has taken everything that was written.
func (c *Conn) Taken() {
	if !c.closed {
		c.handler.Flushed(c)
	}
}

// End says that nothing more can come: the handler's Ended is called with err after what is being handled.
func (c *Conn) End(err error) { c.endLater(err) }

// carriers returns the connections, and those that carry the links among them.
func carriers(conns []*Conn) []*Conn {
	for _, c := range conns {
		if c.link == nil {
			continue
		}
		if carrier := c.link.Carrier(); carrier != nil {
			conns = append(conns[:len(conns):len(conns)], carrier)
		}
	}
	return conns
}

// linkStalled is the rare part of Stalled.
func (c *Conn) linkStalled() bool { return c.link.Waits() }
