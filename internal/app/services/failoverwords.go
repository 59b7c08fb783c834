package services

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// DescribeFailover says for each service what becomes of sessions whose server dies.
func (d Draft) DescribeFailover() map[string]string {
	described := make(map[string]string)
	for name, s := range d.services {
		described[name] = failoverWords(s.Replays(), s.profile.Failover())
	}
	return described
}

// FailoverWarnings returns what is likely to be wrong in a snapshot's settings of failover.
func (d Draft) FailoverWarnings() []string { return d.snapshot.FailoverWarnings(d.profile) }

// VerifiedWarnings returns which services rely on a profile without knowing that it is right about their servers.
func (d Draft) VerifiedWarnings(now time.Time) []string {
	return d.snapshot.VerifiedWarnings(d.profile, now)
}

// CalibratedWarnings returns what is wrong with the calibrations of backends, and which backends have none.
func (d Draft) CalibratedWarnings(now time.Time) (warnings, missing []string) {
	return d.snapshot.CalibratedWarnings(d.profile, now)
}

// failoverWords says what becomes of sessions whose server dies. replays tells whether the service asks for failover.
func failoverWords(replays bool, can *profile.Failover) string {
	switch {
	case replays && can.Verdict == profile.Full:
		return "replay, full: clients see none of it"
	case replays && can.Verdict == profile.Visible:
		return "replay, visible: " + can.Why
	case replays:
		return "none: " + can.Why
	case can.Verdict == profile.Never:
		return "off"
	}
	return fmt.Sprintf("off; the profile offers replay (%s)", can.Verdict)
}

// ReplayNeed returns how many bytes of replay-memory the sessions take at most, if all connections serve one, each client has said as much as
// the replay-window since its last answer, and all use the usual format.
func (d Draft) ReplayNeed() (bytes int64) {
	for name, s := range d.services {
		if !s.Replays() || s.profile.Failover().Verdict == profile.Never {
			continue
		}
		window := int64(s.ReplayWindow.Seconds() * float64(s.profile.Failover().UsualBytes()))
		for _, b := range d.snapshot.Members(name) {
			if b.State != pool.Disabled.String() {
				bytes += int64(b.Cap()) * window
			}
		}
	}
	return bytes
}
