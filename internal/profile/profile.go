package profile

import (
	"slices"
	"strings"
	"time"
)

// Profile describes one message protocol. It is immutable.
type Profile struct {
	// Name is how configuration and flags call it.
	Name string
	// Summary is one line for people.
	Summary string
	// Reuse says how a connection is proven clean for its next session. It is OneShot when the profile has a doubt or a
	// risk that nobody has accepted.
	Reuse Reuse
	// Declared is the way of reuse that the profile describes, whether or not it is in force.
	Declared Reuse
	// Reason says why Reuse is OneShot; empty otherwise.
	Reason string

	// Predial says whether connections may be dialed before there is a client for them.
	Predial Predial
	// Subprotocol is what the proxy offers when it dials (RFC 6455, section 4.1); empty for what the client offers.
	Subprotocol string
	// Limits are the profile's own; the process may have tighter ones.
	Limits Limits
	// Ping is how often an idle connection is sent a WebSocket ping; 0 for the process's own interval.
	Ping time.Duration
	// EndCloses tells that the server closes the connection after the client's own end message.
	EndCloses bool

	spec    *spec
	program *program
}

// Doubt returns what is not proven about the profile's way of reuse; empty for nothing.
func (p *Profile) Doubt() string { return p.spec.doubt }

// Source returns where the profile's facts come from, in its author's words.
func (p *Profile) Source() string { return p.spec.source }

// From returns the name of the profile that this one inherits from; empty for none.
func (p *Profile) From() string { return p.spec.from }

// BusyStatus reports whether this HTTP status, in answer to the opening handshake, means that the server is full. Whoever
// dials asks.
func (p *Profile) BusyStatus(status int) bool {
	return status > 0 && status < 1000 && inRanges(uint16(status), p.program.busyStatus)
}

// DialsAhead reports whether connections are dialed before there is a client for them, to a backend that sets these header fields
// itself, by their names in canonical form, and has this query in its URL.
func (p *Profile) DialsAhead(header []string, query string) bool {
	switch p.Predial {
	case PredialNever:
		return false
	case PredialWithKey:
		return p.keyed(header, query)
	}
	return true
}

// keyed reports whether one of the fields or parameters is what the profile says that a client's key is in.
func (p *Profile) keyed(header []string, query string) bool {
	v := &p.spec.variant
	for _, name := range header {
		if slices.Contains(v.privateHeaders, name) && namesKey(name) {
			return true
		}
	}
	for raw := range strings.SplitSeq(query, "&") {
		if name, value, ok := parameter(raw); ok && value != "" && slices.Contains(v.privateQuery, name) && namesKey(name) {
			return true
		}
	}
	return false
}

// namesKey reports whether what bears this name is a key or token, and not just an option.
func namesKey(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(secretNames, name) || strings.Contains(name, "key") || strings.Contains(name, "token") || strings.HasPrefix(name, "auth")
}
