package loop

// This file is what a loop does when a handler panics, if [Options.OnPanic] is set. There is one deferred recovery around all
// turns: after a panic the loop leaves turns, resumes what was under way, and enters turns again. So recovery costs nothing as
// long as nothing panics; the loop only remembers whose event it is handling.

// Handling notes that what the loop does until the current event ends is done for connection c. A function that was posted to
// the loop, rather than to a connection, calls it.
func (l *Loop) Handling(c *Conn) { l.current, l.handler = c, c.handler }

// fatal is the value of a panic that a loop does not recover from, because it cannot continue.
type fatal string

// recovered is deferred by whatever calls handlers. It passes the value of a panic to OnPanic.
func (l *Loop) recovered() {
	if l.group.onPanic == nil {
		return
	}
	if value := recover(); value != nil {
		if _, ok := value.(fatal); ok {
			panic(value)
		}
		l.group.onPanic(value)
	}
}

// resume retires the connection whose handler has panicked, and handles the rest of what was under way. done is false after another panic.
func (l *Loop) resume() (done bool) {
	defer l.recovered()
	c, h := l.current, l.handler
	l.current, l.handler = nil, nil
	if c != nil && c.IsOn(l) {
		l.retire(c, h)
	}
	l.driver.failSending()
	l.timers.at = 0
	l.timers.arm(l)
	l.driver.handleRest()
	l.finish()
	return true
}

// retire calls Retire of the handler that the connection had when the event began and, if that has not closed it, of its current
// handler.
func (l *Loop) retire(c *Conn, before Handler) {
	defer func() {
		if c.on == l && !c.closed { // neither handler is a Retirer, or Retire has panicked
			c.Close()
		}
	}()
	if r, ok := As[Retirer](before); ok {
		r.Retire(c)
	}
	if r, ok := As[Retirer](c.handler); ok && !c.closed {
		r.Retire(c)
	}
}
