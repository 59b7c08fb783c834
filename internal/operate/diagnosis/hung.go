package diagnosis

import (
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
//
// Clients give up, and the sessions that come after them prove nothing at first. The server hangs still, until it is heard by one of them.

const (
	// answering is how many sessions of a peer must have had a first reply.
	answering = 3
	// unproven is for how long a server is taken to hang without a proof, or twice as long as its sessions may wait if that is longer: then new
	// sessions would be proof.
	unproven = time.Minute
)

// Hang is a backend that hangs.
type Hang struct {
	Since time.Time // of the first proof
	Text  string    // the evidence of the last
	at    time.Duration
	lasts time.Duration // without another proof
}

// hangsOf takes a look at which backends hang.
func (r *recent) hangsOf(o *Observation) map[BackendName]Hang {
	hangs := make(map[BackendName]Hang)
	for i := range o.Stats.Backends {
		b := &o.Stats.Backends[i]
		name := BackendName{b.Service, b.Name}
		before, known := r.hangs[name]
		switch text := proofOf(o.Stats, b); {
		case text != "":
			patience := time.Duration(b.Overdue.PatienceSeconds * float64(time.Second))
			hang := Hang{Since: b.Overdue.Since, Text: text, at: o.Elapsed, lasts: max(unproven, 2*patience)}
			if known {
				hang.Since = before.Since
			}
			hangs[name] = hang
		case known && o.Elapsed-before.at < before.lasts && b.HeardSessions == 0 && b.State == "enabled" && b.Health.Condition().Word == api.Healthy:
			before.Text = "hung: none of its sessions has had anything from it since"
			hangs[name] = before
		}
	}
	r.hangs = hangs
	return hangs
}

// ofHung names the backends that hang.
func ofHung(f *Facts, found *findings) {
	for i := range f.Stats.Backends {
		b := &f.Stats.Backends[i]
		if hang, hangs := f.Recent.Hangs[BackendName{b.Service, b.Name}]; hangs {
			p := found.add(BackendHung, backend(b), "%s. Its sessions stay until they are ended: drain it, end them, and restart the server", hang.Text)
			p.Since, p.Cure = hang.Since, commandOn(b, "drain")+"; wsbouncer session kill --backend "+b.Name
			if v := f.Stats.Service(b.Service); v != nil && v.Failover != nil && v.Failover.Mode == "replay" && v.Failover.Verdict != "never" && b.DiscoveredFrom == "" {
				p.Text = hang.Text + ". Drain it, which moves its sessions, and restart the server"
				p.Cure = commandOn(b, "drain") + " --move"
			}
		}
	}
}

// proofOf returns the evidence that a backend hangs; empty if there is none. One that is known to be out of order, such as one that has stalled,
// is not said to hang.
func proofOf(s *api.Stats, b *api.Backend) string {
	o := b.Overdue
	if o == nil || b.Health.Condition().Word != api.Healthy {
		return ""
	}
	overdue := o.Sessions + o.Unreplied
	all := max(b.Leased, overdue)
	owed := func(n int, what string) string {
		return fmt.Sprintf("hung: %d of %s had no %s for up to %s", n, figures.Plural(all, "session")+verb(all, " has", " have"), what, figures.Seconds(o.LongestSeconds))
	}
	switch {
	case b.Hangs(o.Sessions):
		return owed(o.Sessions, "result")
	case b.HeardSessions == 0 && b.Hangs(overdue) && peerAnswers(s, b):
		return owed(overdue, "first reply") + ", though clients send, and others of " + b.Service + " answer"
	}
	return ""
}

// peerAnswers reports whether sessions on another backend of the service have had their first replies.
func peerAnswers(s *api.Stats, b *api.Backend) bool {
	for i := range s.Backends { // without a copy of each
		p := &s.Backends[i]
		if p.Service == b.Service && p.Name != b.Name && p.Overdue == nil && p.FirstReplyOwedSeconds == 0 && p.AnsweredSessions >= answering {
			return true
		}
	}
	return false
}
