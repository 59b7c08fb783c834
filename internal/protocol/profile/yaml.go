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
	return encode(block(key("profiles", named)))
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
	end := block(
		key("client", matchersYAML(s.end.client)), key("server", when(s.end.closes, "close")), key("resets", when(s.end.resets, "true")),
		key("timeout", durationYAML(s.end.timeout, d.end.timeout)),
	)
	leave := block(
		key("send", messagesYAML(s.leave.send)), key("until", leaveUntil), key("timeout", durationYAML(s.leave.timeout, d.leave.timeout)),
	)
	tag := block(
		key("start", matchersYAML(s.tag.start)), key("path", quote(s.tag.path.String())), key("server", quote(s.tag.server.String())),
		key("done", matchersYAML(s.tag.done)), key("failed", matchersYAML(s.tag.failed)),
	)
	reset := block(
		key("send", messagesYAML(s.reset.send)), key("until", s.reset.untilYAML()), key("settle", durationYAML(s.reset.settle, d.reset.settle)),
		key("timeout", durationYAML(s.reset.timeout, d.reset.timeout)),
	)
	keepalive := block(
		key("ping", durationYAML(s.keepalive.ping, 0)), key("send", messagesYAML(s.keepalive.send)), key("every", durationYAML(s.keepalive.every, 0)),
		key("answer", matchersYAML(s.keepalive.answer)),
	)
	timeouts := block(
		key("greeting", durationYAML(s.timeouts.greeting, d.timeouts.greeting)), key("ready", durationYAML(s.timeouts.ready, d.timeouts.ready)),
		key("busy", durationYAML(s.timeouts.busy, 0)),
	)
	limits := block(
		key("sessions", numberYAML(s.limits.Sessions, d.limits.Sessions)), key("age", durationYAML(s.limits.Age, d.limits.Age)),
		key("idle", durationYAML(s.limits.Idle, d.limits.Idle)), key("message", numberYAML(s.limits.Message, d.limits.Message)),
		key("greeting", numberYAML(s.limits.Greeting, d.limits.Greeting)),
	)
	tell := block(key("queue", quote(s.tell.queue)), key("moved", quote(s.tell.moved)), key("degraded", quote(s.tell.degraded)))
	return block(
		key("summary", quote(s.summary)), key("source", quote(s.source)),
		key("client", s.script.yaml()),
		key("reuse", when(s.reuse != OneShot, s.reuse.String())), key("reason", quote(s.reason)), key("doubt", quote(s.doubt)), key("unsafe", oneOrList(accepted)),
		key("predial", when(s.predial != d.predial, s.predial.String())), key("subprotocol", quote(s.subprotocol)),
		key("setup", messagesYAML(s.setup)), key("greeting", matchersYAML(s.greeting)), key("ready", matchersYAML(s.ready)), key("busy", matchersYAML(s.busy)),
		key("end", end), key("leave", leave), key("replace", when(s.replace, "reset")), key("early", when(s.early != d.early, s.early.String())),
		key("sticky", matchersYAML(s.sticky)), key("unanswered", matchersYAML(s.unanswered)), key("answers", matchersYAML(s.answers)),
		key("tag", tag), key("stateless", when(s.stateless, "true")), key("reset", reset),
		key("keepalive", keepalive), key("timeouts", timeouts), key("limits", limits),
		key("variant", s.variant.yaml()), key("failover", s.failover.yaml()), key("tell", tell),
	)
}

func (v *variantSpec) yaml() *yaml.Node {
	var allow, defaults []pair
	for _, name := range slices.Sorted(maps.Keys(v.allow)) {
		allow = append(allow, key(name, list(quoteEach(v.allow[name]))))
	}
	for _, name := range slices.Sorted(maps.Keys(v.defaults)) {
		defaults = append(defaults, key(name, quoteValue(v.defaults[name])))
	}
	private := inline(
		key("query", list(quoteEach(v.privateQuery))), key("headers", list(quoteEach(v.privateHeaders))), key("subprotocol", when(v.privateSubprotocol, "true")),
	)
	return block(
		key("query", list(quoteEach(v.query))), key("headers", list(quoteEach(v.headers))), key("allow", inline(allow...)), key("default", inline(defaults...)),
		key("private", private), key("unlisted", when(v.dialUnlisted, "dial")), key("other", when(v.refuseOther, "refuse")),
		key("max", numberYAML(v.max, defaultVariants)),
	)
}
