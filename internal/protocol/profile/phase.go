package profile

import "fmt"

// Phase says in words what the connection waits for, as the profile sees it.
func (b *Boundary) Phase() string {
	phase := [...]string{
		greeting: "waits for the server's greeting", idle: "idle", opening: "waits for the client's first message",
		notReady: "waits for the server to be ready", streaming: "passes messages on", replacing: "resets the server in place of the client's end",
		finishing: "waits for the client's last answer", resetting: "waits for the reset to succeed", settling: "waits for the server to stay quiet",
		leaving: "waits for the server's last word", broken: "must be closed",
	}[b.state]
	if b.reason != NoReason {
		phase += ": " + b.reason.String()
	}
	return phase
}

// Awaited says in words what must still come from the server before the reset has succeeded; empty when no reset is under way, or when
// nothing must come.
func (b *Boundary) Awaited() string {
	if b.state == leaving {
		if len(b.program.leave.until) == 0 {
			return "the server's close must come"
		}
		return "the server's last message must come"
	}
	if b.session == nil || b.session.expected == 0 || b.state != finishing && b.state != resetting {
		return ""
	}
	what := "acknowledgement"
	switch b.program.reuse {
	case Lockstep:
		what = "message"
	case Tagged:
		what = "end of a task"
	}
	text := "1 " + what + " must come"
	if n := b.session.expected; n != 1 {
		text = fmt.Sprintf("%d %s must come", n, map[string]string{
			"acknowledgement": "acknowledgements", "message": "messages", "end of a task": "ends of tasks",
		}[what])
	}
	if b.state == finishing {
		text += fmt.Sprintf(", the first %d for the client", b.session.answers)
	}
	return text
}
