package profile

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// YAML returns the profile in canonical form: a profile that inherits nothing, with its keys in the order of the documentation, and
// without keys that only repeat a default. It has no comments; see [BuiltInYAML] for those of built-in profiles. Parsing it gives an
// equal profile.
func (p *Profile) YAML() []byte {
	body := p.spec.yaml()
	if body == nil {
		body = emptyYAML()
	}
	named := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{word(p.Name), body}}
	return encode(pairs{{"profiles", named}}.block())
}

func (s *spec) yaml() *yaml.Node {
	d := newSpec()
	var accepted []*yaml.Node
	for i, name := range riskNames {
		if s.unsafe>>i&1 != 0 {
			accepted = append(accepted, word(name))
		}
	}
	leaveUntil := matchersYAML(s.leave.until)
	if leaveUntil == nil {
		leaveUntil = when(len(s.leave.send) > 0, "close")
	}
	end := pairs{
		{"client", matchersYAML(s.end.client)},
		{"server", when(s.end.closes, "close")},
		{"resets", when(s.end.resets, "true")},
		{"timeout", durationYAML(s.end.timeout, d.end.timeout)},
	}
	leave := pairs{
		{"send", messagesYAML(s.leave.send)}, {"until", leaveUntil}, {"timeout", durationYAML(s.leave.timeout, d.leave.timeout)},
	}
	tag := pairs{
		{"start", matchersYAML(s.tag.start)},
		{"path", quote(s.tag.path.String())},
		{"server", quote(s.tag.server.String())},
		{"done", matchersYAML(s.tag.done)},
		{"failed", matchersYAML(s.tag.failed)},
	}
	reset := pairs{
		{"send", messagesYAML(s.reset.send)},
		{"until", s.reset.untilYAML()},
		{"settle", durationYAML(s.reset.settle, d.reset.settle)},
		{"timeout", durationYAML(s.reset.timeout, d.reset.timeout)},
	}
	keepalive := pairs{
		{"ping", durationYAML(s.keepalive.ping, 0)},
		{"send", messagesYAML(s.keepalive.send)},
		{"every", durationYAML(s.keepalive.every, 0)},
		{"answer", matchersYAML(s.keepalive.answer)},
	}
	timeouts := pairs{
		{"greeting", durationYAML(s.timeouts.greeting, d.timeouts.greeting)},
		{"ready", durationYAML(s.timeouts.ready, d.timeouts.ready)},
		{"busy", durationYAML(s.timeouts.busy, 0)},
	}
	limits := pairs{
		{"sessions", numberYAML(s.limits.Sessions, d.limits.Sessions)},
		{"age", durationYAML(s.limits.Age, d.limits.Age)},
		{"idle", durationYAML(s.limits.Idle, d.limits.Idle)},
		{"message", numberYAML(s.limits.Message, d.limits.Message)},
		{"greeting", numberYAML(s.limits.Greeting, d.limits.Greeting)},
	}
	tell := pairs{{"queue", quote(s.tell.queue)}, {"moved", quote(s.tell.moved)}, {"degraded", quote(s.tell.degraded)}}
	return pairs{
		{"summary", quote(s.summary)},
		{"source", quote(s.source)},
		{"client", s.script.yaml()},
		{"reuse", when(s.reuse != OneShot, s.reuse.String())},
		{"reason", quote(s.reason)},
		{"doubt", quote(s.doubt)},
		{"unsafe", oneOrList(accepted)},
		{"predial", when(s.predial != d.predial, s.predial.String())},
		{"subprotocol", quote(s.subprotocol)},
		{"setup", messagesYAML(s.setup)},
		{"greeting", matchersYAML(s.greeting)},
		{"ready", matchersYAML(s.ready)},
		{"busy", matchersYAML(s.busy)},
		{"end", end.block()},
		{"leave", leave.block()},
		{"replace", when(s.replace, "reset")},
		{"early", when(s.early != d.early, s.early.String())},
		{"sticky", matchersYAML(s.sticky)},
		{"unanswered", matchersYAML(s.unanswered)},
		{"answers", matchersYAML(s.answers)},
		{"tag", tag.block()},
		{"stateless", when(s.stateless, "true")},
		{"reset", reset.block()},
		{"keepalive", keepalive.block()},
		{"timeouts", timeouts.block()},
		{"limits", limits.block()},
		{"variant", s.variant.yaml()},
		{"failover", s.failover.yaml()},
		{"tell", tell.block()},
	}.block()
}

func (v *variantSpec) yaml() *yaml.Node {
	var allow, defaults pairs
	for _, name := range slices.Sorted(maps.Keys(v.allow)) {
		allow = append(allow, pair{name, list(quoteEach(v.allow[name]))})
	}
	for _, name := range slices.Sorted(maps.Keys(v.defaults)) {
		defaults = append(defaults, pair{name, quoteValue(v.defaults[name])})
	}
	private := pairs{
		{"query", list(quoteEach(v.privateQuery))}, {"headers", list(quoteEach(v.privateHeaders))}, {"subprotocol", when(v.privateSubprotocol, "true")},
	}
	return pairs{
		{"query", list(quoteEach(v.query))},
		{"headers", list(quoteEach(v.headers))},
		{"allow", allow.inline()},
		{"default", defaults.inline()},
		{"private", private.inline()},
		{"unlisted", when(v.dialUnlisted, "dial")},
		{"other", when(v.refuseOther, "refuse")},
		{"max", numberYAML(v.max, defaultVariants)},
	}.block()
}
