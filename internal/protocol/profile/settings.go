package profile

import (
	"hash/maphash"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Some servers keep what a client's first message sets, and no reset clears it. A connection to such a server serves only sessions
// that set the same, byte for byte: then a session inherits nothing that it would not have set itself. The Boundary keeps a hash of
// the first message, with a secret seed, so that no client can construct a different message with the same hash.

// The values of Boundary.settings that are not hashes.
const (
	anySettings     uint64 = 0 // no session has sent anything on the connection yet
	noSettings      uint64 = 1 // the first message of the first session set nothing
	unknownSettings uint64 = 2 // that message may have set anything
)

var seed = maphash.MakeSeed()

// hashOf returns a hash of the bytes, which is valid within this process and never one of the constants above.
func hashOf(b []byte) uint64 { return maphash.Bytes(seed, b) | 1<<63 }

// checkSettings reports whether the connection can serve a session with these settings, and if so, records them. If not, the Step asks
// the caller to move the session.
func (b *Boundary) checkSettings(settings uint64) (s Step, ok bool) {
	switch {
	case settings == unknownSettings && b.settings == anySettings:
		b.forbidReuse(Unclean) // it is not known which sessions have the same settings
	case b.settings == anySettings:
	case b.settings != settings:
		return Step{Pass: Keep, Client: Pause, Then: Elsewhere, Reason: OtherSettings, Settings: settings}, false
	}
	b.settings = settings
	return Step{}, true
}

// unreadSettings stands for the settings of a client's first message that is too long to match, or of a kind that sets nothing.
func (p *program) unreadSettings(op frame.Opcode) uint64 {
	if f := p.fromClient.tooLong(op); (f.class|f.doubt)&isSticky == 0 {
		return noSettings
	}
	return unknownSettings
}

// checkFirstMessage does the same for a session's first message, once it is whole.
func (b *Boundary) checkFirstMessage(m *assembly, f found, payload []byte) (s Step, ok bool) {
	settings := noSettings
	switch {
	case b.settings == unknownSettings: // already checked when the message began: no other session has had the connection
		return Step{}, true
	case (f.class|f.doubt)&isSticky == 0:
	case m.long || f.class&isSticky == 0:
		settings = unknownSettings
	default:
		settings = hashOf(payload)
	}
	if s, ok = b.checkSettings(settings); !ok {
		s.Pass = Drop // the opening holds a copy
	}
	return s, ok
}
