package profile

import (
	"slices"
	"strings"
	"time"
)

// Profile describes one message protocol. It is immutable.
type Profile struct {
	// Name is the profile's name in configuration and flags.
	Name string
	// Summary is one line for people.
	Summary string
	// Reuse says how the proxy proves that a connection is clean. It is OneShot if the profile has a doubt or a risk that it does not
	// accept by unsafe.
	Reuse Reuse
	// Declared is the way of reuse that the profile describes, whether or not it is in force.
	Declared Reuse
	// Reason says why Reuse is OneShot; empty otherwise.
	Reason string

	// Predial says whether connections may be opened before clients arrive.
	Predial Predial
	// Subprotocol is what the proxy offers when it dials (RFC 6455, section 4.1); empty if the profile sets none.
	Subprotocol string
	// Limits are the profile's own; the process may have tighter ones.
	Limits Limits
	// Ping is the interval of WebSocket pings on an idle connection; 0 for the process's own interval.
	Ping time.Duration
	// EndCloses means that the server closes the connection after the client's own end message.
	EndCloses bool

	spec    *spec
	program *program
}

// Doubt says what is not proven about the profile's way of reuse; empty if nothing is in doubt.
func (p *Profile) Doubt() string { return p.spec.doubt }

// Source returns where the profile's facts come from, in its author's words.
func (p *Profile) Source() string { return p.spec.source }

// From returns the name of the profile that this one inherits from; empty for none.
func (p *Profile) From() string { return p.spec.from }

// BusyStatus reports whether this HTTP status, as the answer to the opening handshake, means that the server is full.
func (p *Profile) BusyStatus(status int) bool {
	return status > 0 && status < 1000 && inRanges(uint16(status), p.program.busyStatus)
}

// DialsAhead reports whether connections to a backend are opened before clients arrive. header holds the names, in canonical form, of
// the header fields that the backend's settings contain; query is the query of its URL.
func (p *Profile) DialsAhead(header []string, query string) bool {
	switch p.Predial {
	case PredialNever:
		return false
	case PredialWithKey:
		return p.keyed(header, query)
	}
	return true
}

// keyed reports whether one of these fields or parameters is one in which, by the profile, a client's key is sent.
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

// namesKey reports whether this name of a header field or parameter suggests a key or token, not just an option.
func namesKey(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(secretNames, name) || strings.Contains(name, "key") || strings.Contains(name, "token") || strings.HasPrefix(name, "auth")
}
