package profile

import (
	"maps"
	"slices"
	"strings"
)

// YAML returns the profile in canonical form: a profile that inherits nothing, with its keys in the order of the documentation, and
// without keys that only repeat a default. It has no comments; see [BuiltInYAML] for those of built-in profiles. Parsing it gives an
// equal profile.
func (p *Profile) YAML() []byte {
	w := &writer{}
	w.spec(p.spec)
	if w.Len() == 0 {
		return []byte("profiles:\n  " + p.Name + ": {}\n")
	}
	return []byte("profiles:\n  " + p.Name + ":\n" + w.String())
}

// writer writes YAML.
type writer struct{ strings.Builder }

func (w *writer) line(depth int, text string) {
	w.WriteString(strings.Repeat("  ", depth))
	w.WriteString(text)
	w.WriteByte('\n')
}

// key writes a key with its value, if there is one.
func (w *writer) key(depth int, key, value string) {
	switch {
	case value == "":
	case value[0] == '\n': // a list in lines of its own
		w.line(depth, key+":"+value)
	default:
		w.line(depth, key+": "+value)
	}
}

func (w *writer) spec(s *spec) {
	d := newSpec()
	w.key(2, "summary", quote(s.summary))
	w.key(2, "source", quote(s.source))
	w.script(&s.script)
	if s.reuse != OneShot {
		w.key(2, "reuse", s.reuse.String())
	}
	w.key(2, "reason", quote(s.reason))
	w.key(2, "doubt", quote(s.doubt))
	var accepted []string
	for i, name := range riskNames {
		if s.unsafe>>i&1 != 0 {
			accepted = append(accepted, name)
		}
	}
	if len(accepted) == 1 {
		w.key(2, "unsafe", accepted[0])
	} else if len(accepted) > 1 {
		w.key(2, "unsafe", flow(accepted))
	}
	if s.predial != d.predial {
		w.key(2, "predial", s.predial.String())
	}
	w.key(2, "subprotocol", quote(s.subprotocol))
	w.key(2, "setup", messagesYAML(s.setup))
	w.key(2, "greeting", matchersYAML(s.greeting))
	w.key(2, "ready", matchersYAML(s.ready))
	w.key(2, "busy", matchersYAML(s.busy))
	end := []string{"client", matchersYAML(s.end.client), "server", "", "resets", yes(s.end.resets), "timeout", durationYAML(s.end.timeout, d.end.timeout)}
	if s.end.closes {
		end[3] = "close"
	}
	w.mapping("end", end...)
	leaveUntil := matchersYAML(s.leave.until)
	if leaveUntil == "" && len(s.leave.send) > 0 {
		leaveUntil = "close"
	}
	w.mapping("leave", "send", messagesYAML(s.leave.send), "until", leaveUntil, "timeout", durationYAML(s.leave.timeout, d.leave.timeout))
	if s.replace {
		w.key(2, "replace", "reset")
	}
	if s.early != d.early {
		w.key(2, "early", s.early.String())
	}
	w.key(2, "sticky", matchersYAML(s.sticky))
	w.key(2, "unanswered", matchersYAML(s.unanswered))
	w.key(2, "answers", matchersYAML(s.answers))
	w.mapping("tag", "start", matchersYAML(s.tag.start), "path", quote(s.tag.path.String()), "server", quote(s.tag.server.String()),
		"done", matchersYAML(s.tag.done), "failed", matchersYAML(s.tag.failed))
	w.key(2, "stateless", yes(s.stateless))
	w.mapping("reset", "send", messagesYAML(s.reset.send), "until", untilYAML(&s.reset), "settle", durationYAML(s.reset.settle, d.reset.settle),
		"timeout", durationYAML(s.reset.timeout, d.reset.timeout))
	w.mapping("keepalive", "ping", durationYAML(s.keepalive.ping, 0), "send", messagesYAML(s.keepalive.send),
		"every", durationYAML(s.keepalive.every, 0), "answer", matchersYAML(s.keepalive.answer))
	w.mapping("timeouts", "greeting", durationYAML(s.timeouts.greeting, d.timeouts.greeting), "ready", durationYAML(s.timeouts.ready, d.timeouts.ready),
		"busy", durationYAML(s.timeouts.busy, 0))
	w.mapping("limits", "sessions", numberYAML(s.limits.Sessions, d.limits.Sessions), "age", durationYAML(s.limits.Age, d.limits.Age),
		"idle", durationYAML(s.limits.Idle, d.limits.Idle), "message", numberYAML(s.limits.Message, d.limits.Message),
		"greeting", numberYAML(s.limits.Greeting, d.limits.Greeting))
	w.variant(&s.variant)
	w.failover(&s.failover)
	w.mapping("tell", "queue", quote(s.tell.queue), "moved", quote(s.tell.moved), "degraded", quote(s.tell.degraded))
}

// mapping writes a key whose value is a mapping. pairs are its keys and values in turn; it leaves out empty values.
func (w *writer) mapping(key string, pairs ...string) {
	first := true
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if first {
			w.line(2, key+":")
			first = false
		}
		w.key(3, pairs[i], pairs[i+1])
	}
}

func (w *writer) variant(v *variantSpec) {
	var allow, defaults []string
	for _, name := range slices.Sorted(maps.Keys(v.allow)) {
		allow = append(allow, quoteValue(name)+": "+flow(quoted(v.allow[name])))
	}
	for _, name := range slices.Sorted(maps.Keys(v.defaults)) {
		defaults = append(defaults, quoteValue(name)+": "+quoteValue(v.defaults[name]))
	}
	var private []string
	if len(v.privateQuery) > 0 {
		private = append(private, "query: "+flow(quoted(v.privateQuery)))
	}
	if len(v.privateHeaders) > 0 {
		private = append(private, "headers: "+flow(quoted(v.privateHeaders)))
	}
	if v.privateSubprotocol {
		private = append(private, "subprotocol: true")
	}
	unlisted, other := "", ""
	if v.dialUnlisted {
		unlisted = "dial"
	}
	if v.refuseOther {
		other = "refuse"
	}
	w.mapping("variant", "query", list(v.query), "headers", list(v.headers), "allow", braces(allow), "default", braces(defaults),
		"private", braces(private), "unlisted", unlisted, "other", other, "max", numberYAML(v.max, defaultVariants))
}
