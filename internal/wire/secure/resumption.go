package secure

import (
	"bytes"
	"crypto/tls"
)

// A key log tells the master secret of TLS 1.2 in the full handshake, but not when a session is resumed. So this end notes it with what
// resumes the session, which has it anyway: in the ticket that it sends as a server, which is encrypted, or in its cache as a client. TLS
// 1.3 has new secrets for each connection.

// masterNote begins what is noted among the additional data of a session ([tls.SessionState.Extra]).
var masterNote = []byte("wsbouncer master secret ")

// note adds the connection's master secret to the state of its session, if there is one.
func (l *Line) note(state *tls.SessionState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.follower; f != nil && f.master != nil && masterOf(state) == nil {
		state.Extra = append(state.Extra, append(bytes.Clone(masterNote), f.master...))
	}
}

// resumes tells the follower that a session may be resumed. If it is not, the key log tells of another secret.
func (l *Line) resumes(state *tls.SessionState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if master := masterOf(state); l.follower != nil && master != nil {
		l.follower.master = bytes.Clone(master)
		l.follower.begin()
	}
}

// masterOf returns the master secret that was noted with a session; nil for none.
func masterOf(state *tls.SessionState) []byte {
	for _, extra := range state.Extra {
		if master, ok := bytes.CutPrefix(extra, masterNote); ok {
			return master
		}
	}
	return nil
}

// noteInTickets makes a connection's own configuration note its master secret in tickets. They are encrypted and decrypted by shared, the
// configuration that it was made of, which has the keys.
func noteInTickets(config, shared *tls.Config, line *Line) {
	wrap, unwrap := shared.WrapSession, shared.UnwrapSession
	if wrap == nil {
		wrap = shared.EncryptTicket
	}
	if unwrap == nil {
		unwrap = shared.DecryptTicket
	}
	config.WrapSession = func(connection tls.ConnectionState, state *tls.SessionState) ([]byte, error) {
		line.note(state)
		return wrap(connection, state)
	}
	config.UnwrapSession = func(identity []byte, connection tls.ConnectionState) (*tls.SessionState, error) {
		state, err := unwrap(identity, connection)
		if state != nil {
			line.resumes(state)
		}
		return state, err
	}
}

// noting is the cache of a client's sessions for one connection, whose master secret it notes.
type noting struct {
	tls.ClientSessionCache
	line *Line
}

// Get implements [tls.ClientSessionCache].
func (n noting) Get(key string) (*tls.ClientSessionState, bool) {
	session, ok := n.ClientSessionCache.Get(key)
	if session != nil {
		if _, state, err := session.ResumptionState(); err == nil && state != nil {
			n.line.resumes(state)
		}
	}
	return session, ok
}

// Put implements [tls.ClientSessionCache].
func (n noting) Put(key string, session *tls.ClientSessionState) {
	if session != nil {
		if ticket, state, err := session.ResumptionState(); err == nil && state != nil {
			n.line.note(state)
			if noted, err := tls.NewResumptionState(ticket, state); err == nil {
				session = noted
			}
		}
	}
	n.ClientSessionCache.Put(key, session)
}
