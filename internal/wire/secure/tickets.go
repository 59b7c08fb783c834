package secure

import (
	"crypto/rand"
	"crypto/tls"
	"time"
)

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
