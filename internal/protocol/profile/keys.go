package profile

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// profile reads a profile into s, which holds what the profile inherits.
func (r *reader) profile(s *spec, n *strictyaml.Node) {
	r.own = s.own
	r.set("", r.entriesOf(n, s.fields()), s.fields())
}

// fields are the keys of a profile.
func (s *spec) fields() []field {
	usual := newSpec()
	return []field{
		{"from", value{ // family.resolve has followed it
			read:  func(*reader, string, *strictyaml.Node) {},
			print: func() *yaml.Node { return nil },
		}},
		{"summary", textAt(&s.summary)},
		{"source", textAt(&s.source)},
		{"client", scriptAt(&s.script)},
		{"reuse", wordAt(&s.reuse, reuseNames)},
		{"reason", textAt(&s.reason)},
		{"doubt", textAt(&s.doubt).orNone()},
		{"unsafe", bind(&s.unsafe, (*reader).risks, risks.yaml)},
		{"predial", wordAt(&s.predial, predialNames)},
		{"subprotocol", textAt(&s.subprotocol).orNone().check(func(r *reader, n *strictyaml.Node) {
			if s.subprotocol != "" && !IsToken(s.subprotocol) {
				r.problem(placeOf(n), "invalid subprotocol %q: use one name of letters, digits and !#$%%&'*+-.^_`|~ (RFC 6455, section 4.1)", s.subprotocol)
			}
		})},
		{"lookalike", textAt(&s.lookalike).orNone()},
		{"setup", messagesAt(&s.setup)},
		{"greeting", matchersAt(&s.greeting)},
		{"ready", matchersAt(&s.ready)},
		{"busy", matchersAt(&s.busy, slices.Concat(messageKeys, refusalKeys)...)},
		{"end", sectionAt(&s.end, usual.end, (*endSpec).fields)},
		{"leave", sectionAt(&s.leave, usual.leave, (*leaveSpec).fields)},
		{"replace", choiceAt(&s.replace, "none", "reset")},
		{"early", wordAt(&s.early, earlyNames)},
		{"sticky", matchersAt(&s.sticky)},
		{"unanswered", matchersAt(&s.unanswered)},
		{"answers", matchersAt(&s.answers)},
		{"tag", sectionAt(&s.tag, usual.tag, (*tagSpec).fields)},
		{"stateless", booleanAt(&s.stateless)},
		{"reset", sectionAt(&s.reset, usual.reset, (*resetSpec).fields)},
		{"keepalive", sectionAt(&s.keepalive, usual.keepalive, (*keepaliveSpec).fields)},
		{"timeouts", sectionAt(&s.timeouts, usual.timeouts, (*timeoutsSpec).fields)},
		{"limits", sectionAt(&s.limits, usual.limits, (*Limits).fields)},
		{"max-age", durationAt(&s.maxAge)},
		{"goaway", matchersAt(&s.goaway)},
		{"capacity", sectionAt(&s.capacity, usual.capacity, (*Capacity).fields)},
		{"variant", sectionAt(&s.variant, usual.variant, (*variantSpec).fields)},
		{"affinity", sectionAt(&s.affinity, usual.affinity, (*Affinity).fields)},
		{"failover", failoverAt(&s.failover)},
		{"output", sectionAt(&s.output, usual.output, (*audioSpec).outputFields).inline()},
		{"tell", sectionAt(&s.tell, usual.tell, (*Tell).fields)},
	}
}

// risks reads the risks that a profile accepts.
func (r *reader) risks(n *strictyaml.Node) (accepted risks, ok bool) {
	if isNone(n) {
		return 0, true
	}
	for _, item := range items(n) {
		if i, ok := r.word(item, riskNames...); ok {
			accepted |= 1 << i
		}
	}
	return accepted, true
}

func (accepted risks) yaml() *yaml.Node {
	var words []*yaml.Node
	for i, name := range riskNames {
		if accepted>>i&1 != 0 {
			words = append(words, word(name))
		}
	}
	return oneOrList(words)
}

func (s *endSpec) fields() []field {
	return []field{
		{"client", matchersAt(&s.client)},
		{"server", choiceAt(&s.closes, "stays", "close")},
		{"resets", booleanAt(&s.resets)},
		{"timeout", durationAt(&s.timeout)},
	}
}

func (s *leaveSpec) fields() []field {
	until := bind(&s.until, func(r *reader, n *strictyaml.Node) ([]matcher, bool) {
		if isText(n) && n.Value == "close" {
			return nil, true
		}
		return r.matchers(n, messageKeys), true
	}, func(until []matcher) *yaml.Node {
		if len(until) == 0 && len(s.send) > 0 {
			return word("close")
		}
		return matchersYAML(until)
	})
	return []field{{"send", messagesAt(&s.send)}, {"until", until}, {"timeout", durationAt(&s.timeout)}}
}

func (s *tagSpec) fields() []field {
	return []field{
		{"start", matchersAt(&s.start)},
		{"continues", booleanAt(&s.continues)},
		{"end", matchersAt(&s.end)},
		{"path", pathAt(&s.path, parsePath)},
		{"server", pathAt(&s.server, parsePath)},
		{"done", matchersAt(&s.done)},
		{"failed", matchersAt(&s.failed)},
	}
}

func (s *resetSpec) fields() []field {
	return []field{
		{"send", messagesAt(&s.send)},
		{"until", bind(&s.untilSpec, (*reader).until, untilSpec.yaml)},
		{"settle", durationAt(&s.settle)},
		{"timeout", durationAt(&s.timeout)},
	}
}

// until reads how the proxy recognizes that the reset has succeeded: matchers, a number of replies, both, or the word quiet.
func (r *reader) until(n *strictyaml.Node) (u untilSpec, ok bool) {
	if isText(n) && n.Value == "quiet" {
		return untilSpec{quiet: true}, true
	}
	for _, item := range items(n) {
		if !isMapping(item) || len(item.Content) == 0 || item.Content[0].Value != "count" {
			u.until = append(u.until, r.matchers(item, append([]string{"count"}, messageKeys...))...)
			continue
		}
		fields := r.fields(item, "count")
		if len(fields) == 0 {
			continue
		}
		if u.count > 0 {
			r.problem(fields[0].at, "count is defined twice")
		}
		if count, ok := r.number(fields[0].value, 1, 1000); ok {
			u.count = int(count)
		}
	}
	return u, true
}

func (s *keepaliveSpec) fields() []field {
	return []field{
		{"ping", durationAt(&s.ping)},
		{"send", messagesAt(&s.send)},
		{"every", durationAt(&s.every)},
		{"answer", matchersAt(&s.answer)},
	}
}

func (s *timeoutsSpec) fields() []field {
	return []field{{"greeting", durationAt(&s.greeting)}, {"ready", durationAt(&s.ready)}, {"busy", durationAt(&s.busy)}}
}

// The longest message that a profile may inspect, and the longest greeting that it may save, in bytes.
const (
	maxMessage  = 1 << 20
	maxGreeting = 1 << 20
)

func (s *Limits) fields() []field {
	return []field{
		{"sessions", numberAt(&s.Sessions, 0, 1<<31-1)},
		{"age", durationAt(&s.Age)},
		{"idle", durationAt(&s.Idle)},
		{"message", sizeAt(&s.Message, maxMessage)},
		{"greeting", sizeAt(&s.Greeting, maxGreeting)},
	}
}
