package profile

import "hash/maphash"

// Some servers keep what a client's first message sets, and no reset takes it back. A connection to such a server is for
// sessions that set the same, byte for byte: then nothing of one session is in another, since it would have set it itself.
// What is kept of a first message is its hash, with a seed that is secret, so that nobody can make up a message that passes
// for another.

// The values of Boundary.settings that are not hashes.
const (
	anySettings     uint64 = 0 // no session has said anything on the connection yet
	noSettings      uint64 = 1 // the first one's first message set nothing
	unknownSettings uint64 = 2 // it may have set anything
)

var seed = maphash.MakeSeed()

// hashOf returns a number that stands for the bytes within this process.
func hashOf(b []byte) uint64 { return maphash.Bytes(seed, b) | 1<<63 }

// fit reports whether a session with these settings can be served, and if so, notes them.
func (b *Boundary) fit(settings uint64) (s Step, fits bool) {
	switch {
	case settings == unknownSettings && b.settings == anySettings:
		b.forbidReuse(Unclean) // so that no other session is compared with it
	case b.settings == anySettings:
	case b.settings != settings:
		return Step{Pass: Keep, Client: Pause, Then: Elsewhere, Reason: OtherSettings, Settings: settings}, false
	}
	b.settings = settings
	return Step{}, true
}

// fitsSettings is fit for a whole first message.
func (b *Boundary) fitsSettings(m *assembly, f found, payload []byte) (s Step, fits bool) {
	settings := noSettings
	switch {
	case (f.class|f.doubt)&isSticky == 0:
	case m.long && b.flags&noReuse != 0: // that has been found when it began
		return Step{}, true
	case m.long || f.class&isSticky == 0:
		settings = unknownSettings
	default:
		settings = hashOf(payload)
	}
	if s, fits = b.fit(settings); !fits {
		s.Pass = Drop // it is in the opening
	}
	return s, fits
}
