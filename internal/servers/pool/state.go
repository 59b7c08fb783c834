package pool

// State is what a slot's connection is doing.
type State uint8

// The states of a slot.
const (
	Dialing State = iota
	Idle
	Leased
	Resetting
	Retiring
	Gone
	states = int(Gone)
)

// String returns the state's name as it is used in statistics and logs.
func (s State) String() string {
	return [...]string{"dialing", "idle", "leased", "resetting", "retiring", "gone"}[s]
}

// Mode is the desired state of a backend.
type Mode uint8

// The modes of a backend.
const (
	// Enabled: sessions may begin, and connections are kept warm.
	Enabled Mode = iota
	// Draining: sessions continue, and none begins. Idle connections stay open.
	Draining
	// Disabled: sessions continue, and none begins. All other connections are closed.
	Disabled
)

var modeNames = []string{"enabled", "draining", "disabled"}

// String returns the mode's name as it is used in configuration, statistics and logs.
func (m Mode) String() string { return modeNames[m] }

// ParseMode returns the mode of that name.
func ParseMode(name string) (Mode, error) { return parse[Mode]("state", name, modeNames) }

// Reason says why a connection was retired.
type Reason uint8

// The reasons for retiring a connection.
const (
	// Served: its profile gives a connection to one session only.
	Served Reason = iota
	// Unclean: its session ended so that the profile cannot tell whether it is clean.
	Unclean
	// Cut: its session ended in the middle of a frame or message.
	Cut
	// Closed: the backend closed it in order.
	Closed
	// Lost: it failed, or the backend ended it without a close frame.
	Lost
	// Broken: the backend broke the protocol.
	Broken
	// Unsolicited: data came that no client had asked for.
	Unsolicited
	// Silent: a ping was not answered in time.
	Silent
	// ResetFailed: the backend did not make it clean in time.
	ResetFailed
	// Full: the server said that it takes no more sessions for now.
	Full
	// Aged: it was older than connections may become.
	Aged
	// WornOut: it had served as many sessions as one connection may.
	WornOut
	// Outdated: since it was dialed, the backend's settings have changed, or an operator had its connections replaced.
	Outdated
	// Surplus: there were more idle connections than wanted.
	Surplus
	// Displaced: its place was needed for a client of another variant.
	Displaced
	// Suspected: its place was needed to find out whether the backend is well.
	Suspected
	// Shed: its file descriptor was needed for clients.
	Shed
	// Withdrawn: an operator disabled the backend.
	Withdrawn
	// InternalError: a bug in the proxy.
	InternalError
	// Shutdown: the proxy ends, or the backend is removed.
	Shutdown
	reasons = int(Shutdown) + 1
)

// String returns the reason's name as it is used in statistics and logs.
func (r Reason) String() string {
	return [...]string{
		"served", "unclean", "cut", "closed", "lost", "broken", "unsolicited", "silent", "reset_failed", "full", "aged", "worn_out",
		"outdated", "surplus", "displaced", "suspected", "shed", "withdrawn", "internal_error", "shutdown",
	}[r]
}

// Reasons counts connections by the reason for which they were retired.
type Reasons [reasons]uint64

// All calls f with each reason, and how often it was the reason.
func (r Reasons) All(f func(Reason, uint64)) {
	for i, n := range r {
		f(Reason(i), n)
	}
}

// Sum returns how many connections were retired for any reason.
func (r Reasons) Sum() (sum uint64) {
	for _, n := range r {
		sum += n
	}
	return sum
}

// Named returns the reasons that there were, by name.
func (r Reasons) Named() map[string]uint64 {
	named := make(map[string]uint64)
	r.All(func(reason Reason, n uint64) {
		if n > 0 {
			named[reason.String()] = n
		}
	})
	return named
}
