package diagnosis

import (
	"cmp"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// A server hangs if its connections are open, it answers pings, and its sessions get nothing. Nothing is done about that without a
// stall-timeout, and with one only when that is over; but it is named as soon as it is sure.
//
// Clients may have nothing to say, so a session counts only if it is surely owed something, or if nothing is known of its audio, and then only
// where the server sends nothing to anybody while its peers answer.

// answering is how many sessions of a peer must have had a first reply.
const answering = 3

// ofHung names the backends that hang. One that is known to be out of order, such as one that has stalled, is not among them.
func ofHung(f *Facts, found *findings) {
	s := f.Stats
	for i := range s.Backends {
		b := &s.Backends[i]
		o := b.Overdue
		if o == nil || b.Health.Condition().Word != api.Healthy {
			continue
		}
		overdue := o.Sessions + o.Unreplied
		all := max(b.Leased, overdue)
		owed := func(n int, what string) string {
			return fmt.Sprintf("hung: %d of %s had no %s for up to %s", n, figures.Plural(all, "session")+verb(all, " has", " have"), what, figures.Seconds(o.LongestSeconds))
		}
		var text string
		switch {
		case b.Condition().Word == api.Hung:
			text = owed(o.Sessions, "result")
		case o.Heard == 0 && b.Hangs(overdue) && peerAnswers(s, b):
			text = owed(overdue, "first reply") + ", though clients send, and others of " + b.Service + " answer"
		default:
			continue
		}
		p := found.add(BackendHung, backend(b), "%s", text)
		p.Since, p.Cure = o.Since, "wsbouncer backend drain "+cmp.Or(b.DiscoveredFrom, b.Name)
	}
}

// peerAnswers reports whether sessions on another backend of the service have had their first replies.
func peerAnswers(s *api.Stats, b *api.Backend) bool {
	for i := range s.Backends {
		p := &s.Backends[i]
		if p.Service == b.Service && p.Name != b.Name && p.Overdue == nil && p.FirstReplyOwedSeconds == 0 && p.AnsweredSessions >= answering {
			return true
		}
	}
	return false
}
