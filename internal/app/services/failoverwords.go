package services

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// DescribeFailover says for each service of a snapshot what becomes of sessions whose server dies, and what is likely to be a mistake in that.
func DescribeFailover(snapshot *config.Snapshot) (described map[string]string, warnings []string, err error) {
	p, err := newPlan(snapshot, nil, nothingFound)
	if err != nil {
		return nil, nil, err
	}
	described = make(map[string]string)
	profiles := make(map[string]*profile.Profile)
	for name, s := range p.services {
		profiles[s.Profile] = s.profile
		described[name] = failoverWords(s.Replays(), s.profile.Failover())
	}
	return described, snapshot.FailoverWarnings(func(name string) *profile.Profile { return profiles[name] }), nil
}

// VerifiedWarnings returns which services of a snapshot rely on a profile without knowing that it is right about their servers.
func VerifiedWarnings(snapshot *config.Snapshot, now time.Time) []string {
	p, err := newPlan(snapshot, nil, nothingFound)
	if err != nil { // which is said elsewhere
		return nil
	}
	profiles := make(map[string]*profile.Profile)
	for _, s := range p.services {
		profiles[s.Profile] = s.profile
	}
	return snapshot.VerifiedWarnings(func(name string) *profile.Profile { return profiles[name] }, now)
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

// ReplayNeed returns how many bytes of replay-memory the sessions of a snapshot take at most, if all connections serve one, each client
// has said as much as the replay-window since its last answer, and all use the usual format.
func ReplayNeed(snapshot *config.Snapshot) (bytes int64, err error) {
	p, err := newPlan(snapshot, nil, nothingFound)
	if err != nil {
		return 0, err
	}
	for name, s := range p.services {
		if !s.Replays() || s.profile.Failover().Verdict == profile.Never {
			continue
		}
		window := int64(s.ReplayWindow.Seconds() * float64(s.profile.Failover().UsualBytes()))
		for _, b := range snapshot.Members(name) {
			if b.State != pool.Disabled.String() {
				bytes += int64(b.Connections) * window
			}
		}
	}
	return bytes, nil
}
