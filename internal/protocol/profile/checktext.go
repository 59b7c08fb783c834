package profile

import "strings"

// hasTokens reports whether the reset's acknowledgement contains the token that was sent.
func (s *spec) hasTokens() bool {
	for i := range s.reset.until {
		if !s.reset.until[i].hasToken() {
			return false
		}
	}
	return len(s.reset.until) > 0
}

func (m *matcher) hasToken() bool {
	for _, c := range m.json {
		if c.kind == jsonString && strings.Contains(c.text, tokenMark) {
			return true
		}
	}
	return m.text != nil && strings.Contains(*m.text, tokenMark)
}

// texts returns the texts with which a matcher compares.
func (m *matcher) texts() []string {
	var list []string
	if m.text != nil {
		list = append(list, *m.text)
	}
	if m.contains != "" {
		list = append(list, m.contains)
	}
	if m.binary != nil {
		list = append(list, *m.binary)
	}
	for _, c := range m.json {
		list = append(list, c.text)
	}
	return list
}

// uses returns the profile's matchers by the path of their key.
func (s *spec) uses() map[string][]matcher {
	return map[string][]matcher{
		"greeting": s.greeting, "ready": s.ready, "busy": s.busy, "end.client": s.end.client, "sticky": s.sticky,
		"unanswered": s.unanswered, "answers": s.answers, "tag.start": s.tag.start, "tag.end": s.tag.end, "tag.done": s.tag.done, "tag.failed": s.tag.failed,
		"leave.until": s.leave.until, "reset.until": s.reset.until, "keepalive.answer": s.keepalive.answer,
		"affinity.server.message": s.affinity.server.messages, "affinity.client.message": s.affinity.client.messages,
	}
}

// checkTokens finds tokens in the wrong places, or without a counterpart.
func (r *reader) checkTokens(s *spec) {
	sent := false
	for _, m := range s.reset.send {
		sent = sent || m.marked
	}
	for key, matchers := range s.uses() {
		for _, m := range matchers {
			for _, text := range m.texts() {
				switch count := strings.Count(text, tokenMark); {
				case count == 0:
				case key != "reset.until" || m.contains != "" || m.binary != nil || m.packed:
					r.problem(s.place(key, strings.SplitN(key, ".", 2)[0]), "%s stands for a number that is sent with the reset: use it only in text and JSON text of reset.send and reset.until", tokenMark)
				case count > 1:
					r.problem(s.place(key, "reset"), "%s is used %d times in one text: use it once", tokenMark, count)
				case !sent:
					r.problem(s.place(key, "reset"), "%s is expected in the acknowledgement but not sent: add %s to reset.send", tokenMark, tokenMark)
				case s.end.resets:
					r.problem(s.place("end.resets", "end"), "reset.until expects %s, which a client's own end message cannot contain: remove %s or end.resets", tokenMark, tokenMark)
				}
			}
		}
	}
	for key, list := range map[string][]Message{"setup": s.setup, "keepalive.send": s.keepalive.send, "leave.send": s.leave.send} {
		for _, m := range list {
			if m.marked {
				r.problem(s.place(key, strings.SplitN(key, ".", 2)[0]), "%s stands for a number that is sent with the reset: use it only in reset.send and reset.until", tokenMark)
			}
		}
	}
}

// checkLengths finds matchers that match nothing because such messages are too long to inspect, and too many JSON conditions.
func (r *reader) checkLengths(s *spec) {
	conditions := 2 // for capturing tags
	for key, matchers := range s.uses() {
		parent, _, _ := strings.Cut(key, ".")
		for _, m := range matchers {
			conditions += len(m.json)
			length := 0
			for _, text := range m.texts() {
				length += len(text)
			}
			if length > s.limits.Message {
				r.problem(s.place(key, "limits.message", parent, "limits"), "impossible matcher: it has %d bytes, and messages longer than limits.message (%d) are not examined", length, s.limits.Message)
			}
		}
	}
	if conditions > 64 {
		r.problem(s.at, "%d JSON conditions in the matchers: use at most 62", conditions-2)
	}
}
