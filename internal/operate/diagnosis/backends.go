package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// notDialed is the reason of a backend that has not been dialed: nothing is known of it.
const notDialed = "not dialed yet"

// ofBackends names what is wrong with backends: each has one of these problems at most.
func ofBackends(f *Facts, found *findings) {
	for i := range f.Stats.Backends {
		ofBackend(f, &f.Stats.Backends[i], found)
	}
}

func ofBackend(f *Facts, b *api.Backend, found *findings) {
	about, condition := backend(b), healthOf(b) // ofHung names those that hang
	flap, flaps := f.Recent.Flaps[BackendName{b.Service, b.Name}]
	switch {
	case b.State == "draining" || b.State == "disabled":
		kind := BackendDraining
		if b.State == "disabled" {
			kind = BackendDisabled
		}
		found.add(kind, about, "%s: %s", b.State, sessionsLeft(b)).Cure = commandOn(b, "enable")
	case b.Untried() && condition.Word == api.Unreachable:
		found.add(BackendNoPlace, about, "%s", noPlace(b)).Since = condition.Since
	case flaps:
		now := condition.Word
		if condition.Why != "" {
			now += ": " + condition.Why
		}
		p := found.add(BackendFlapping, about, "it went out of health %s within minutes; now %s", figures.Plural(flap.Times, "time"), now)
		if p.Since, p.Cure = flap.First, commandOn(b, "drain"); condition.Word == api.Healthy {
			p.Hurts = api.HurtsSoon // the next time that it goes out of health
		}
	case condition.Word == api.Unreachable && condition.Why == notDialed:
		found.capacity(b, about)
	case condition.Word != api.Healthy:
		kind, cure := troubleOf(&condition)
		text := meanings[kind] + condition.Word
		if condition.Why != "" {
			text += ": " + condition.Why
		}
		if kind == BackendWrongProtocol {
			text = wrongProtocol(b, &condition)
		}
		p := found.add(kind, about, "%s", text)
		p.Since = condition.Since
		switch p.Cure = commandOn(b, cure); {
		case cure == "set":
			p.Cure += " --header NAME=VALUE" // the key that the server wants
		case kind == BackendWrongProtocol && b.Profile != "" && strings.Contains(condition.Why, unsolicited):
			p.Cure = "wsbouncer profile show " + b.Profile // it answers as a WebSocket server: the profile does not fit
		}
	case b.Canary == "doubtful":
		p := found.add(CanaryDoubtful, about, "the canary fails, and has passed on no backend of the service, so it takes none out of service: %s", b.CanaryReason)
		p.Since, p.Cure = b.CanarySince, "wsbouncer service show "+b.Service
	case b.Places != nil && b.Places.Granted > b.Places.Cap:
		found.add(BackendOverGranted, about, "proxies have %d of %d places, until sessions end: its cap was lowered, or one is back that was taken for dead", b.Places.Granted, b.Places.Cap)
	case b.CeilingCause == "lag":
		p := found.add(BackendLate, about, "%s: it gets no new sessions above %d of %d", b.CeilingReason, b.Ceiling, b.Cap)
		p.Since, p.Cure = b.CeilingSince, commandOn(b, "show")
	// Without a refusal, the ceiling is lower only because connections of a removed backend still use the server.
	case b.Ceiling < b.Cap && (b.CeilingCause == "full" || b.FullAt > 0) && !fullAsPublished(b):
		found.full(b, about)
	default:
		found.capacity(b, about)
	}
}

// capacity notes that a server publishes fewer sessions than the cap, or no longer what the cap follows.
func (found *findings) capacity(b *api.Backend, about subject) {
	switch p := b.Published; {
	case p == nil:
	case p.Followed && p.Reason != "":
		kept := "connections-max holds, as none was ever read"
		if !p.At.IsZero() {
			kept = "the last one holds"
		}
		found.add(BackendCapacity, about, "its capacity cannot be read, and %s: %s", kept, p.Reason).Since = p.Since
	case !p.Followed && p.Total > 0 && p.Total < b.Cap:
		found.add(BackendCapacity, about, "it publishes that it takes %s, and connections is %d", figures.Plural(p.Total, "session"), b.Cap).Cure =
			commandOn(b, "set") + " --connections " + strconv.Itoa(p.Total)
	}
}

// Published returns what a server publishes of its capacity, such as "6 of 8 sessions, 2 of them not of these proxies"; empty for nothing.
func Published(b *api.Backend, now time.Time) string {
	p := b.Published
	if p == nil || p.At.IsZero() {
		return ""
	}
	text := figures.Plural(p.Total, "session")
	switch {
	case p.Used != nil && p.Total > 0:
		text = fmt.Sprintf("%d of %s", *p.Used, text)
	case p.Used != nil:
		text = figures.Plural(*p.Used, "session")
	}
	if p.Strangers > 0 {
		text += fmt.Sprintf(", %d of them not of these proxies", p.Strangers)
	}
	return text + ", read " + figures.Since(p.At, now) + " ago"
}

// fullAsPublished reports whether a backend has fewer connections than its cap only because of what its server publishes, and the cap follows that.
func fullAsPublished(b *api.Backend) bool {
	p := b.Published
	return p != nil && p.Followed && (b.FullAt == 0 || p.Total > 0 && b.FullAt >= p.Total-p.Strangers)
}

// full notes that a server is full below its cap. What it said last holds until the proxy has tried more.
func (found *findings) full(b *api.Backend, about subject) {
	full, most, cure := cmp.Or(b.FullAt, b.Ceiling), b.Cap, "" // an older proxy does not report the former
	if p := b.Published; p != nil && p.Followed {
		cure = commandOn(b, "show") // a number would end that the cap follows the server
		if p.Total > 0 {
			most = min(most, p.Total)
		}
	}
	text := fmt.Sprintf("the server says that it is full: %d of %d connections", full, most)
	switch {
	case b.Ceiling > full:
		text += fmt.Sprintf(" (the last known value: the proxy allows up to %d again)", b.Ceiling)
	case b.Leased+b.Resetting < full:
		text += " (the last known value: no more have been tried since)"
	}
	if cure == "" {
		cure = commandOn(b, "set") + " --connections "
		if b.Places != nil { // other proxies use the server, too, and the cap is for all
			cure += "N"
		} else {
			cure += strconv.Itoa(full)
		}
	}
	found.add(BackendFull, about, "%s", text).Cure = cure
}

// commandOn returns a command about a backend. One of several servers behind a name cannot be drained alone: then it is the command that shows
// them all.
func commandOn(b *api.Backend, verb string) string {
	if b.DiscoveredFrom != "" && (verb == "drain" || verb == "recycle") {
		return "wsbouncer backend ls --output wide"
	}
	return "wsbouncer backend " + verb + " " + cmp.Or(b.DiscoveredFrom, b.Name)
}

// meanings are what stands before the reason where that alone does not tell an operator what is wrong.
var meanings = map[Kind]string{
	BackendRefusing: "it does not accept the proxy's credential: ",
}

// unsolicited is the reason of a connection that got a message which its profile does not expect.
const unsolicited = "unsolicited message"

// wrongProtocol returns what is wrong with a server that does not do as its profile says: what it did, without how the proxy found it.
func wrongProtocol(b *api.Backend, c *api.Condition) string {
	profile := "its profile"
	if b.Profile != "" {
		profile = "the profile " + b.Profile
	}
	_, did, nested := strings.Cut(c.Why, "connection lost before it served a session: ")
	if !nested {
		did = c.Why
	}
	if did == unsolicited {
		did = "it sent a message that was not asked for"
	}
	return "it does not speak the protocol of " + profile + ": " + did
}

// troubleOf returns the kind of what keeps sessions away from a backend, and the verb of the command that helps. Why a backend could not be used is known as a text, which the proxy has written itself.
func troubleOf(c *api.Condition) (kind Kind, cure string) {
	switch c.Word {
	case "stalled":
		return BackendStalled, "drain"
	case "outlier":
		return BackendEjected, "drain"
	case "canary fails":
		return BackendCanary, "drain"
	}
	switch {
	case answered(c.Why, "401", "403", "407"):
		return BackendRefusing, "set"
	case answered(c.Why, "5", "408", "429"):
		return BackendFailing, "show"
	case answered(c.Why, ""), anyOf(c.Why, "did not answer with HTTP", "answer is malformed", "without upgrading", "chose the subprotocol", "extension that was not offered",
		"Sec-WebSocket-Accept", "first record does not look like a TLS handshake", "broke the protocol", unsolicited):
		return BackendWrongProtocol, "show"
	case c.Word == "probe fails":
		return BackendProbe, "show"
	case anyOf(c.Why, "sessions in a row were broken"):
		return BackendFailing, "drain"
	}
	return BackendUnreachable, "recycle"
}

// answered reports whether a reason is that the server has answered the upgrade request with an HTTP status that begins so.
func answered(why string, statuses ...string) bool {
	_, status, ok := strings.Cut(why, "server answered ")
	return ok && strings.Contains(why, "instead of upgrading") && slices.ContainsFunc(statuses, func(s string) bool { return strings.HasPrefix(status, s) })
}

func anyOf(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
