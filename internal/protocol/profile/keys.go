package profile

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// profileKeys are the keys of a profile, in the order in which they are documented and printed.
var profileKeys = []string{
	"from", "summary", "source", "client", "reuse", "reason", "doubt", "unsafe", "predial", "subprotocol", "setup", "greeting", "ready", "busy",
	"end", "leave", "replace", "early", "sticky", "unanswered", "answers", "tag", "stateless", "reset", "keepalive", "timeouts", "limits", "variant",
	"failover", "tell",
}

// profile reads a profile into s, which holds what the profile inherits.
func (r *reader) profile(s *spec, n *strictyaml.Node) {
	for _, e := range r.fields(n, profileKeys...) {
		s.own[e.key] = placeOf(e.value)
		r.key(s, e)
	}
}

// key reads one key of a profile.
func (r *reader) key(s *spec, e entry) {
	switch e.key {
	case "from": // family.resolve has followed it
	case "summary":
		r.setText(&s.summary, e.value)
	case "source":
		r.setText(&s.source, e.value)
	case "client":
		r.script(s, e.value)
	case "reason":
		r.setText(&s.reason, e.value)
	case "doubt":
		s.doubt = ""
		if !isNone(e.value) {
			r.setText(&s.doubt, e.value)
		}
	case "reuse":
		if i, ok := r.word(e.value, reuseNames...); ok {
			s.reuse = Reuse(i)
		}
	case "unsafe":
		s.unsafe = 0
		if !isNone(e.value) {
			for _, item := range items(e.value) {
				if i, ok := r.word(item, riskNames...); ok {
					s.unsafe |= 1 << i
				}
			}
		}
	case "predial":
		if i, ok := r.word(e.value, predialNames...); ok {
			s.predial = Predial(i)
		}
	case "subprotocol":
		s.subprotocol = ""
		if isNone(e.value) {
			break
		}
		if r.setText(&s.subprotocol, e.value); s.subprotocol != "" && !IsToken(s.subprotocol) {
			r.problem(placeOf(e.value), "invalid subprotocol %q: use one name of letters, digits and !#$%%&'*+-.^_`|~ (RFC 6455, section 4.1)", s.subprotocol)
		}
	case "setup":
		s.setup = r.messages(e.value)
	case "greeting":
		s.greeting = r.matchers(e.value, messageKeys)
	case "ready":
		s.ready = r.matchers(e.value, messageKeys)
	case "busy":
		s.busy = r.matchers(e.value, append(messageKeys[:len(messageKeys):len(messageKeys)], refusalKeys...))
	case "end":
		r.end(s, e.value)
	case "leave":
		r.leave(s, e.value)
	case "tell":
		r.tell(s, e.value)
	case "replace":
		if i, ok := r.word(e.value, "none", "reset"); ok {
			s.replace = i == 1
		}
	case "early":
		if i, ok := r.word(e.value, earlyNames...); ok {
			s.early = Early(i)
		}
	case "sticky":
		s.sticky = r.matchers(e.value, messageKeys)
	case "unanswered":
		s.unanswered = r.matchers(e.value, messageKeys)
	case "answers":
		s.answers = r.matchers(e.value, messageKeys)
	case "stateless":
		if value, ok := r.boolean(e.value); ok {
			s.stateless = value
		}
	case "tag":
		r.tag(s, e.value)
	case "reset":
		r.reset(s, e.value)
	case "keepalive":
		r.keepalive(s, e.value)
	case "timeouts":
		for _, f := range r.below(s, e.key, e.value, "greeting", "ready", "busy") {
			to := &s.timeouts.greeting
			switch f.key {
			case "ready":
				to = &s.timeouts.ready
			case "busy":
				to = &s.timeouts.busy
			}
			r.setDuration(to, f.value)
		}
	case "limits":
		r.limits(s, e.value)
	case "variant":
		if isNone(e.value) {
			s.variant = variantSpec{max: defaultVariants}
			break
		}
		r.variant(s, e.value)
	case "failover":
		before := len(r.problems)
		r.failover(s, e.value)
		s.faulty = len(r.problems) > before
	}
}

// below returns the entries of a mapping under a key, and records their places.
func (r *reader) below(s *spec, key string, n *strictyaml.Node, allowed ...string) []entry {
	fields := r.fields(n, allowed...)
	for _, f := range fields {
		s.own[key+"."+f.key] = placeOf(f.value)
	}
	return fields
}

func (r *reader) setText(to *string, n *strictyaml.Node) {
	if s, ok := r.text(n); ok {
		*to = s
	}
}

func (r *reader) setDuration(to *time.Duration, n *strictyaml.Node) {
	if d, ok := r.duration(n); ok {
		*to = d
	}
}

func (r *reader) end(s *spec, n *strictyaml.Node) {
	if isNone(n) {
		s.end = endSpec{timeout: defaultEndTimeout}
		return
	}
	for _, f := range r.below(s, "end", n, "client", "server", "resets", "timeout") {
		switch f.key {
		case "client":
			s.end.client = r.matchers(f.value, messageKeys)
		case "server":
			if i, ok := r.word(f.value, "stays", "close"); ok {
				s.end.closes = i == 1
			}
		case "resets":
			if value, ok := r.boolean(f.value); ok {
				s.end.resets = value
			}
		case "timeout":
			r.setDuration(&s.end.timeout, f.value)
		}
	}
}

func (r *reader) tag(s *spec, n *strictyaml.Node) {
	if isNone(n) {
		s.tag = tagSpec{}
		return
	}
	for _, f := range r.below(s, "tag", n, "start", "path", "server", "done", "failed") {
		switch f.key {
		case "start":
			s.tag.start = r.matchers(f.value, messageKeys)
		case "path":
			r.setPath(&s.tag.path, f.value)
		case "server":
			r.setPath(&s.tag.server, f.value)
		case "done":
			s.tag.done = r.matchers(f.value, messageKeys)
		case "failed":
			s.tag.failed = r.matchers(f.value, messageKeys)
		}
	}
}

func (r *reader) setPath(to *jsonPath, n *strictyaml.Node) {
	text, ok := r.text(n)
	if !ok {
		return
	}
	path, err := parsePath(text)
	if err != nil {
		r.problem(placeOf(n), "%v", err)
		return
	}
	*to = path
}

func (r *reader) reset(s *spec, n *strictyaml.Node) {
	if isNone(n) {
		s.reset = resetSpec{timeout: defaultTimeout}
		return
	}
	for _, f := range r.below(s, "reset", n, "send", "until", "settle", "timeout") {
		switch f.key {
		case "send":
			s.reset.send = r.messages(f.value)
		case "until":
			r.until(s, f.value)
		case "settle":
			r.setDuration(&s.reset.settle, f.value)
		case "timeout":
			r.setDuration(&s.reset.timeout, f.value)
		}
	}
}

// until reads how the proxy recognizes that the reset has succeeded: matchers, a number of replies, both, or the word quiet.
func (r *reader) until(s *spec, n *strictyaml.Node) {
	s.reset.until, s.reset.count, s.reset.quiet = nil, 0, false
	if isText(n) && n.Value == "quiet" {
		s.reset.quiet = true
		return
	}
	for _, item := range items(n) {
		if !isMapping(item) || len(item.Content) == 0 || item.Content[0].Value != "count" {
			s.reset.until = append(s.reset.until, r.matchers(item, append([]string{"count"}, messageKeys...))...)
			continue
		}
		fields := r.fields(item, "count")
		if len(fields) == 0 {
			continue
		}
		if s.reset.count > 0 {
			r.problem(fields[0].at, "count is defined twice")
		}
		if count, ok := r.number(fields[0].value, 1, 1000); ok {
			s.reset.count = int(count)
		}
	}
}

func (r *reader) keepalive(s *spec, n *strictyaml.Node) {
	if isNone(n) {
		s.keepalive = keepaliveSpec{}
		return
	}
	for _, f := range r.below(s, "keepalive", n, "ping", "send", "every", "answer") {
		switch f.key {
		case "ping":
			r.setDuration(&s.keepalive.ping, f.value)
		case "send":
			s.keepalive.send = r.messages(f.value)
		case "every":
			r.setDuration(&s.keepalive.every, f.value)
		case "answer":
			s.keepalive.answer = r.matchers(f.value, messageKeys)
		}
	}
}

// The longest message that a profile may inspect, and the longest greeting that it may save, in bytes.
const (
	maxMessage  = 1 << 20
	maxGreeting = 1 << 20
)

func (r *reader) limits(s *spec, n *strictyaml.Node) {
	for _, f := range r.below(s, "limits", n, "sessions", "age", "idle", "message", "greeting") {
		switch f.key {
		case "sessions":
			if value, ok := r.number(f.value, 0, 1<<31-1); ok {
				s.limits.Sessions = int(value)
			}
		case "age":
			r.setDuration(&s.limits.Age, f.value)
		case "idle":
			r.setDuration(&s.limits.Idle, f.value)
		case "message":
			if value, ok := r.size(f.value, 1, maxMessage); ok {
				s.limits.Message = value
			}
		case "greeting":
			if value, ok := r.size(f.value, 1, maxGreeting); ok {
				s.limits.Greeting = value
			}
		}
	}
}
