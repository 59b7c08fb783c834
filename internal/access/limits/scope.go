package limits

import (
	"sync/atomic"
	"time"
)

// Kind is what a [Scope] limits.
type Kind uint8

const (
	Process Kind = iota // all clients of this process
	Service             // all clients of a service
	Client              // the clients of a service that come from one address
	Key                 // the clients that use one API key, or whose credentials give them their own limits
	Tenant              // all clients of a tenant

	// Kinds is how many kinds there are.
	Kinds = iota
)

// String returns the kind's name in metrics and logs.
func (k Kind) String() string {
	return [Kinds]string{"process", "service", "client", "key", "tenant"}[k]
}

// Limit is one of the fields of [Limits].
type Limit uint8

const (
	Sessions Limit = iota
	SessionRate
	ByteRate
	MessageRate
	MaxMessage
	MaxSession
	IdleTimeout
	AudioQuota
	AudioIdle // of a service only, so not in Limits

	// Count is how many limits there are.
	Count = iota
)

// String returns the limit's name in metrics, logs and settings.
func (l Limit) String() string {
	return [Count]string{"session-limit", "session-rate", "byte-rate", "message-rate", "max-message", "max-session", "idle-timeout", "audio-quota", "audio-idle"}[l]
}

// Scope is one thing that is limited. Its methods may be called from any goroutine. The limits can change at any time, for clients that are
// in the scope, too.
type Scope struct {
	// Static.
	kind Kind
	name string
	home home // that forgets the scope when it is no longer needed; nil for a scope that stays

	limits   atomic.Pointer[Limits]
	sessions atomic.Int64 // that are in the scope
	begins   Bucket
	messages Bucket
	bytes    Bucket
}

// home is the table that a scope is in.
type home interface{ left(s *Scope) }

// NewScope returns a scope that stays, without limits.
func NewScope(kind Kind, name string) *Scope {
	s := &Scope{kind: kind, name: name}
	s.limits.Store(new(Limits))
	return s
}

// Kind returns what the scope limits.
func (s *Scope) Kind() Kind { return s.kind }

// Name returns which one it is: the name of a service, a tenant or a key, or a client's address; empty for the process.
func (s *Scope) Name() string { return s.name }

// Limits returns the limits in force. They must not be changed.
func (s *Scope) Limits() *Limits { return s.limits.Load() }

// Sessions returns how many sessions are in the scope.
func (s *Scope) Sessions() int { return int(s.sessions.Load()) }

// SetLimits changes the limits. They apply at once: a lower number of sessions ends none, but lets no new one in.
func (s *Scope) SetLimits(now Instant, l *Limits) {
	before := s.limits.Swap(l)
	s.begins.change(now, before.SessionRate, l.SessionRate)
	s.messages.change(now, before.MessageRate, l.MessageRate)
	s.bytes.change(now, before.ByteRate, l.ByteRate)
}

// set is SetLimits for limits that may be the same as before; nil for none.
func (s *Scope) set(now Instant, l *Limits) (changed bool) {
	if l == nil {
		l = new(Limits)
	}
	if changed = *l != *s.limits.Load(); changed {
		s.SetLimits(now, l)
	}
	return changed
}

// Refusal says which limit a client has met.
type Refusal struct {
	Scope *Scope
	Limit Limit // Sessions, SessionRate or AudioQuota
	// Wait is the time until a session may begin; 0 if that is not known.
	Wait time.Duration
	// Renews is when the quota does.
	Renews time.Time
}

// enter takes a place for a session, or refuses it. Without check, it refuses nothing.
func (s *Scope) enter(now Instant, check bool) *Refusal {
	l, n := s.limits.Load(), s.sessions.Add(1)
	switch {
	case !check:
		return nil
	case l.Sessions > 0 && n > int64(l.Sessions):
		s.sessions.Add(-1)
		return &Refusal{Scope: s, Limit: Sessions}
	}
	if wait := s.begins.Take(now, l.SessionRate); wait > 0 {
		s.sessions.Add(-1)
		return &Refusal{Scope: s, Limit: SessionRate, Wait: wait}
	}
	return nil
}

// leave gives a place back.
func (s *Scope) leave() {
	if s.home != nil {
		s.home.left(s)
		return
	}
	s.left()
}

func (s *Scope) left() int64 {
	n := s.sessions.Add(-1)
	if n < 0 {
		panic("limits: a place was given back twice")
	}
	return n
}

// unused reports whether the scope is as one that was never used.
func (s *Scope) unused(now Instant) bool {
	return s.sessions.Load() == 0 && s.begins.isFull(now) && s.messages.isFull(now) && s.bytes.isFull(now)
}

// spend pays for what a session has sent. It returns the time for which the session must not send, and because of which limit.
func (s *Scope) spend(now Instant, messages, bytes uint64) (wait time.Duration, why Limit) {
	l := s.limits.Load()
	wait, why = s.bytes.Spend(now, l.ByteRate, bytes), ByteRate
	if w := s.messages.Spend(now, l.MessageRate, messages); w > wait {
		wait, why = w, MessageRate
	}
	return wait, why
}
