// Package profile holds what the proxy must know of the message protocol that a backend speaks: where a session ends, and
// whether its connection may serve another one. It does no I/O.
package profile

import (
	"fmt"
	"slices"
	"strings"
)

// Reuse is the way in which a connection is proven clean after a session.
type Reuse int

const (
	// OneShot: it is not; a connection serves one session and is replaced.
	OneShot Reuse = iota
	// Lockstep: the server answers every message with exactly one message, in order, and says nothing else. Then a
	// connection is clean when as many whole messages have come back as whole messages were sent. (A ping would prove
	// nothing: many servers answer pings ahead of queued messages.)
	Lockstep
)

// Profile describes one message protocol. It is immutable.
type Profile struct {
	// Name is how configuration and flags call it.
	Name string
	// Summary is one line for people.
	Summary string
	// Reuse says how a connection is proven clean for its next session.
	Reuse Reuse
}

// The built-in profiles. The first is the default.
var builtIn = []Profile{
	{Name: "one-shot", Summary: "a connection serves one session and is replaced: right for every server", Reuse: OneShot},
	{Name: "echo", Summary: "the server answers every message with exactly one: connections are reused", Reuse: Lockstep},
}

// Named returns the built-in profile of that name.
func Named(name string) (*Profile, error) {
	i := slices.IndexFunc(builtIn, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no profile %q; allowed are %s", name, strings.Join(Names(), ", "))
	}
	return &builtIn[i], nil
}

// Names returns the names of the built-in profiles.
func Names() []string {
	var names []string
	for _, p := range builtIn {
		names = append(names, p.Name)
	}
	return names
}

// Traffic is what has passed over a connection since its session began.
type Traffic struct {
	Sent     uint64 // whole messages to the server
	Received uint64 // whole messages from the server
	// SendingMessage and ReceivingMessage tell whether another message is under way in that direction.
	SendingMessage, ReceivingMessage bool
}

// Verdict says what may become of a connection whose session has ended.
type Verdict int

const (
	// Discard: it cannot become clean, or it cannot be known.
	Discard Verdict = iota
	// Await: it becomes clean when what the server still owes has arrived.
	Await
	// Clean: it may serve the next session now.
	Clean
)

// Judge tells what may become of the connection, given what has passed over it.
func (p *Profile) Judge(t Traffic) Verdict {
	switch {
	case p.Reuse != Lockstep || t.SendingMessage || !p.Plausible(t):
		return Discard
	case t.Sent > t.Received || t.ReceivingMessage:
		return Await
	}
	return Clean
}

// Plausible tells whether the server keeps to the profile as far as can be seen. What it sends beyond that belongs to
// nobody, and must not reach a client.
func (p *Profile) Plausible(t Traffic) bool {
	if p.Reuse != Lockstep {
		return true
	}
	begun := func(whole uint64, another bool) uint64 {
		if another {
			whole++
		}
		return whole
	}
	return begun(t.Received, t.ReceivingMessage) <= begun(t.Sent, t.SendingMessage)
}
