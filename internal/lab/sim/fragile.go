package sim

// This file is for servers that do not bear clients that vanish: the connection ends while a session is under way, without the end
// message, or before the server's last word was sent.

// heard notes that a message came, which begins a session if none is under way.
func (r *replies) heard() { r.underWay = true }

// told notes that a reply was sent, which may be the session's last.
func (r *replies) told(a *answer) {
	if a.closing != 0 || a.role == last {
		r.underWay = false
	}
}

// clientEnds notes that the client ends the connection. If that is in the middle of a session, it is counted, and a fragile server never
// frees the session's place.
func (k *conn) clientEnds() {
	if k.ended || k.replies == nil || !k.replies.underWay {
		return
	}
	k.server.counters.abruptEnds.Add(1)
	if k.placed && k.replies.voice.hit(k.server.options.Nasty.Fragile) {
		k.placed = false // so that release does not free it
	}
}
