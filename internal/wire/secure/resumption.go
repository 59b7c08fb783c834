package secure

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"time"
)

// A key log contains the master secret of TLS 1.2 in the full handshake, but not when a session is resumed. So this end notes it with what
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

// A client that comes back presents a ticket, and saves itself and the proxy most of the handshake (RFC 8446, section 2.2; RFC 5077 for
// TLS 1.2). Tickets are encrypted with the first of a few keys that only this process has.
const (
	// ticketKeyAge is how long a key encrypts tickets. An attacker who learns it can read sessions of TLS 1.2 that were resumed with it.
	ticketKeyAge = 12 * time.Hour
	// ticketKeys is how many keys decrypt tickets: a ticket can be used for 24 to 36 hours.
	ticketKeys = 3
)

// tickets are the keys of all listeners, the latest first. Resuming a session that had a client certificate needs an authority of the
// listener that signed it, so that listeners may share keys even if they trust different authorities.
type tickets struct {
	keys  [][32]byte
	begun time.Time // when the first one was made
}

// rotate makes a new key if it is time, and reports whether it has.
func (t *tickets) rotate(now time.Time) bool {
	if len(t.keys) > 0 && now.Sub(t.begun) < ticketKeyAge {
		return false
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // it never fails
	t.keys = append([][32]byte{key}, t.keys[:min(len(t.keys), ticketKeys-1)]...)
	t.begun = now
	return true
}

// give makes a configuration use the keys.
func (t *tickets) give(config *tls.Config) { config.SetSessionTicketKeys(t.keys) }
