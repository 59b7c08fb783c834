package diagnosis

import (
	"cmp"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// A server hangs if its connections are open, it answers pings, and its sessions get nothing. Nothing is done about that without a
// stall-timeout, and with one only when that is over; but it is named as soon as it is sure.
//
// Clients may have nothing to say, so a session counts only if it is surely owed something, or if nothing is known of its audio, and then only
// where the server sends nothing to anybody while its peers answer.

const (
	// hungSessions is how many sessions a server must keep waiting to be named, or all that it has, if they wait for hungAlone.
	hungSessions = 3
	hungAlone    = 30.0 // seconds
	// answering is how many sessions of a peer must have had a first reply.
	answering = 3
)

type hung struct {
	backend *api.Backend
	text    string // what is wrong
	since   time.Time
	cure    string // the command that helps
}

// hungOnes returns the backends that hang. One that is known to have stalled is not among them.
func hungOnes(s *api.Stats) (found []hung) {
	for i := range s.Backends {
		b := &s.Backends[i]
		o := b.Overdue
		if o == nil || b.Stalled {
			continue
		}
		sessions := max(b.Leased, o.Sessions+o.Unreplied)
		longest := "for up to " + figures.Seconds(o.LongestSeconds)
		h := hung{backend: b, since: o.Since, cure: "wsbouncer backend drain " + cmp.Or(b.DiscoveredFrom, b.Name)}
		switch {
		case several(o.Sessions, sessions, o):
			h.text = fmt.Sprintf("hung: %d of %s had no result %s", o.Sessions, have(sessions), longest)
		case o.Heard == 0 && several(o.Sessions+o.Unreplied, sessions, o) && peerAnswers(s, b):
			h.text = fmt.Sprintf("hung: %d of %s had no first reply %s, though clients send, and others of %s answer", o.Sessions+o.Unreplied, have(sessions), longest, b.Service)
		default:
			continue
		}
		found = append(found, h)
	}
	return found
}

// several reports whether enough of a server's sessions wait.
func several(wait, sessions int, o *api.Overdue) bool {
	return wait >= hungSessions || wait > 0 && wait == sessions && o.LongestSeconds >= hungAlone
}

func have(sessions int) string {
	return figures.Plural(sessions, "session") + verb(sessions, " has", " have")
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
