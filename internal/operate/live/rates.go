package live

import "time"

// rates measures how fast sessions are, by the differences between two samples of their counters. The hub's goroutine owns it. Its
// zero value knows no sample.
type rates struct {
	sessions map[uint64]*counted // by number: what the last sample has
}

// counted is a session in the last sample.
type counted struct {
	at                      time.Time // of that sample
	fromClient, fromBackend uint64    // frames
	// silent is when the first sample was taken in which the client had sent something and the backend nothing since the sample
	// before; zero if the backend has sent something since.
	silent time.Time
}

// measure sets the sessions' FramesPerSecond and LagSeconds.
//
// A session that the last sample did not have, such as all sessions at the first sample, gets its average rate since it began, and
// for its first second the frames that have passed by then: a rate over some milliseconds would put newcomers before all others. The
// lag counts from the end of the first interval in which the client sent something and the backend did not, until the backend sends
// something. So it is too short by at most an interval, and never too long: no session counts as silent that was not.
func (r *rates) measure(at time.Time, all []Session) {
	if r.sessions == nil {
		r.sessions = make(map[uint64]*counted, len(all))
	}
	for i := range all {
		s := &all[i]
		frames := s.FramesFromClient + s.FramesFromBackend
		c := r.sessions[s.Number]
		if c == nil {
			r.sessions[s.Number] = &counted{at: at, fromClient: s.FramesFromClient, fromBackend: s.FramesFromBackend}
			s.FramesPerSecond = rate(frames, max(s.AgeSeconds, 1))
			continue
		}
		s.FramesPerSecond = rate(difference(frames, c.fromClient+c.fromBackend), at.Sub(c.at).Seconds())
		switch {
		case s.FramesFromBackend != c.fromBackend:
			c.silent = time.Time{}
		case s.FramesFromClient != c.fromClient && c.silent.IsZero():
			c.silent = at
		}
		if !c.silent.IsZero() {
			s.LagSeconds = at.Sub(c.silent).Seconds()
		}
		c.at, c.fromClient, c.fromBackend = at, s.FramesFromClient, s.FramesFromBackend
	}
	if len(r.sessions) > len(all) { // some have ended
		for number, c := range r.sessions {
			if !c.at.Equal(at) {
				delete(r.sessions, number)
			}
		}
	}
}
