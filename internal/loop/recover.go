package loop

// What a loop does when a handler panics, if the group was told to go on then. The loop of turns is left, and entered again, so that the
// recovery costs nothing while all goes well: a loop only remembers whose event it is handling.

// Handling notes that what the loop does until the present event is over belongs to the connection. It is for functions that were posted to
// the loop, and not to a connection.
func (l *Loop) Handling(c *Conn) { l.current, l.handler = c, c.handler }

// broken is the value of a panic of a loop that cannot go on.
type broken string

// recovered is deferred around the turns of the loop.
func (l *Loop) recovered() {
	if l.group.onPanic == nil {
		return
	}
	if value := recover(); value != nil {
		if _, ok := value.(broken); ok {
			panic(value)
		}
		l.group.onPanic(value)
	}
}

// resume gives up the connection for which a handler has panicked, and does what else was under way.
func (l *Loop) resume() {
	defer l.recovered() // then it is called again
	c, h := l.current, l.handler
	l.current, l.handler = nil, nil
	if c != nil && c.isOn(l) {
		l.retire(c, h)
	}
	l.driver.dropSending()
	l.timers.at = 0
	l.timers.arm(l)
	l.driver.handleRest()
	l.driver.sendOutbox()
	l.runLater()
	l.runRunning()
}

// retire gives a connection up: that is for whoever was its handler when the event began, and for who is now, if it has changed hands.
func (l *Loop) retire(c *Conn, before Handler) {
	defer func() {
		if c.on == l && !c.closed { // its handler does not know how, or has failed at that, too
			c.Close()
		}
	}()
	if r, ok := before.(Retirer); ok {
		r.Retire(c)
	}
	if r, ok := c.handler.(Retirer); ok && !c.closed {
		r.Retire(c)
	}
}
