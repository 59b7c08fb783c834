package profile

// Phase says in words what the connection waits for, as the profile sees it.
func (b *Boundary) Phase() string {
	phase := [...]string{
		greeting: "waits for the server's greeting", idle: "idle", opening: "waits for the client's first message",
		notReady: "waits for the server to be ready", streaming: "passes messages on", replacing: "resets the server in place of the client's end",
		finishing: "waits for the client's last answer", resetting: "waits for the reset to succeed", settling: "waits for the server to stay quiet",
		broken: "must be closed",
	}[b.state]
	if b.reason != NoReason {
		phase += ": " + b.reason.String()
	}
	return phase
}
