package profile

import (
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Affinity describes the ids that servers give their clients, such as those of conversations, and where a client that comes back says its id. It is
// immutable.
type Affinity struct {
	server givenSpec
	client saidSpec
	keep   time.Duration

	// Compiled.
	given, said *matchSet // of a server's messages, and of clients' first ones; said is nil if the id is never in one
}

// givenSpec says which messages have an id, and where in them it is.
type givenSpec struct {
	messages []matcher
	id       jsonPath
}

// saidSpec says where clients say an id. query and headers are parameters and header fields of their requests.
type saidSpec struct {
	givenSpec
	query, headers []string
}

// defaultAffinity is for how long after its session an id leads to the same server.
const defaultAffinity = 10 * time.Minute

// maxID is the length in bytes of the longest id.
const maxID = maxTag

// Affinity returns what the profile says of ids; nil for nothing.
func (p *Profile) Affinity() *Affinity { return p.program.affinity }

// For returns for how long after the end of its session an id leads to the same server.
func (a *Affinity) For() time.Duration { return a.keep }

// Longest returns the length in bytes of the longest message of a server that may give an id.
func (a *Affinity) Longest() int { return a.given.limit[frame.Text] }

// Given returns the id that a message of a server gives its client; empty for none, and for one of more than 256 bytes.
func (a *Affinity) Given(op frame.Opcode, payload []byte) string { return a.given.idOf(op, payload) }

// InRequest returns the id in a client's request, as [Affinity.Given] returns it: query is the raw query, and field is like [Request].Field. It is
// empty for none.
func (a *Affinity) InRequest(query string, field func(name string) []string) string {
	for raw := range strings.SplitSeq(query, "&") {
		if name, value, ok := parameter(raw); ok && slices.Contains(a.client.query, name) && isID(value) {
			return value
		}
	}
	for _, name := range a.client.headers {
		if values := field(name); len(values) == 1 && isID(values[0]) {
			return values[0]
		}
	}
	return ""
}

func isID(text string) bool { return text != "" && len(text) <= maxID }

// idOf returns the id in a message that has one; empty for none.
func (s *matchSet) idOf(op frame.Opcode, payload []byte) string {
	if s.can[op]&isNaming == 0 || len(payload) > s.limit[op] {
		return ""
	}
	if f := s.match(op, payload, 0); f.class&isNaming != 0 {
		return string(f.tag)
	}
	return ""
}

// Guide reports whether another server is to serve a client whose first message has this id.
type Guide func(id string) (elsewhere bool)

// SetGuide has g asked if the session's first message has an id. The caller calls it right after Begin.
func (b *Boundary) SetGuide(g Guide) {
	if b.program.asksGuide() && b.session != nil {
		b.session.guide = g
	}
}

// AwaitsGuide reports whether the guide is still to be asked: the client has sent no message yet.
func (b *Boundary) AwaitsGuide() bool { return b.session != nil && b.session.guide != nil }

// asksGuide reports whether a client's first message may have an id.
func (p *program) asksGuide() bool { return p.affinity != nil && p.affinity.said != nil }

// mayBeGuided reports whether a first message of this kind and length may have an id. It is held then, since another server may have to get it.
func (b *Boundary) mayBeGuided(op frame.Opcode, length int64) bool {
	if b.session.guide == nil {
		return false
	}
	said := b.program.affinity.said
	if said.can[op]&isNaming != 0 && length <= int64(said.limit[op]) {
		return true
	}
	b.session.guide = nil
	return false
}

// isGuided reports whether another server is to get the session's first message, which is whole.
func (b *Boundary) isGuided(m *assembly, payload []byte) bool {
	guide := b.session.guide
	if b.session.guide = nil; guide == nil || m.long {
		return false
	}
	id := b.program.affinity.said.idOf(m.opcode, payload)
	return id != "" && guide(id)
}

func (a *Affinity) fields() []field {
	return []field{
		{"server", sectionAt(&a.server, givenSpec{}, (*givenSpec).fields)},
		{"client", sectionAt(&a.client, saidSpec{}, (*saidSpec).fields)},
		{"for", durationAt(&a.keep)},
	}
}

func (s *givenSpec) fields() []field {
	return []field{{"message", matchersAt(&s.messages)}, {"id", pathAt(&s.id, parsePath)}}
}

func (s *saidSpec) fields() []field {
	return append(s.givenSpec.fields(), field{"query", namesAt(&s.query, false)}, field{"headers", namesAt(&s.headers, true)})
}

// checkAffinity finds ids that no server gives, or that no client can say.
func (r *reader) checkAffinity(s *spec) {
	a := &s.affinity
	said := len(a.client.query)+len(a.client.headers)+len(a.client.messages) > 0
	at := s.place("affinity.server", "affinity.client", "affinity")
	switch {
	case len(a.server.messages) == 0 && a.server.id == nil && !said && a.client.id == nil:
		return
	case len(a.server.messages) == 0 || a.server.id == nil:
		r.problem(at, "affinity needs the server's message that gives an id: set affinity: {server: {message: matchers, id: path to the "+
			"id in that message}}")
	case !said:
		r.problem(at, "affinity needs to know where a client says its id: set affinity: {client: {query: name}}, {client: {headers: name}} or "+
			"{client: {message: matchers, id: path}}")
	case (len(a.client.messages) > 0) != (a.client.id != nil):
		r.problem(at, "affinity.client.message and affinity.client.id belong together: the client's first message, and the path to the id in it")
	case a.keep == 0:
		r.problem(s.place("affinity.for", "affinity"), "affinity.for is 0: use a duration such as 10m, or affinity: none")
	}
	for key, matchers := range map[string][]matcher{"affinity.server": a.server.messages, "affinity.client": a.client.messages} {
		if slices.ContainsFunc(matchers, func(m matcher) bool { return m.json == nil || m.packed }) {
			r.problem(s.place(key+".message", key), "impossible matcher: an id is text in a JSON message: use {json: {...}}")
		}
	}
}

// compile returns what a program needs of it; nil for nothing. It inspects messages of at most limit bytes.
func (a Affinity) compile(limit int) *Affinity {
	if len(a.server.messages) == 0 {
		return nil
	}
	a.given = newMatchSet(limit, a.server.id, use{a.server.messages, isNaming})
	if len(a.client.messages) > 0 {
		a.said = newMatchSet(limit, a.client.id, use{a.client.messages, isNaming})
	}
	return &a
}
