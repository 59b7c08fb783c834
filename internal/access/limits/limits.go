// Package limits says how much clients may use: sessions, and messages and bytes a second. It does no I/O, and has no clock.
//
// A [Scope] is one thing that is limited: the process, a service, a client's address, a key or a tenant. It counts the sessions that are
// in it, and has a token bucket for each rate. A session's [Hold] has its places in all scopes that it is in, which are given back together.
// The [Registry] knows which scopes those are. Package session asks it when a client arrives, and pays for what the client sends.
package limits

import (
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// Limits are what one thing that is limited may use: the process, a service, a tenant, a key, or a client's address. The zero value of
// a field is no limit.
type Limits struct {
	Sessions    int  // at once
	SessionRate Rate // new sessions
	MessageRate Rate // messages from clients
	ByteRate    Rate // bytes from clients

	MaxMessage  int64         // largest message from a client in bytes
	MaxSession  time.Duration // longest session
	IdleTimeout time.Duration // ends a session without a frame for so long
}

// Text returns a limit as the configuration writes it.
func (l *Limits) Text(limit Limit) string {
	switch limit {
	case Sessions:
		return strconv.Itoa(l.Sessions)
	case SessionRate:
		return l.SessionRate.String()
	case MessageRate:
		return l.MessageRate.String()
	case ByteRate:
		return l.ByteRate.Bytes()
	case MaxMessage:
		return value.FormatSize(l.MaxMessage)
	case MaxSession:
		return value.FormatDuration(l.MaxSession)
	}
	return value.FormatDuration(l.IdleTimeout)
}
