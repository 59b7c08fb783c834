package config

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// failovers are what may become of a session whose server dies, the default first.
var failovers = []string{"off", "replay"}

// Replays reports whether sessions of the service are to continue on another server when theirs dies.
func (s *Service) Replays() bool { return s.Failover == failovers[1] }

// leastStallTimeout is the shortest time after which a server may be taken to have stalled: recognisers that work take most of a second.
const leastStallTimeout = time.Second

// leastLagLimit is the shortest lag that may be a limit: clients send audio in pieces of up to half a second.
const leastLagLimit = 500 * time.Millisecond

// leastSessionAge is the shortest age at which sessions may move: each moves only so often.
const leastSessionAge = time.Minute

// StallAuto is the stall-timeout auto: sessions learn after what time their servers have stalled.
const StallAuto time.Duration = -1

// usualUtterance is a length that many utterances exceed.
const usualUtterance = 5 * time.Second

// checkFailover checks what of failover depends on other fields.
func (s *Service) checkFailover(name string, problems *Problems) {
	for _, limit := range []struct {
		field     string
		is, least time.Duration
	}{{"stall-timeout", s.StallTimeout, leastStallTimeout}, {"lag-limit", s.LagLimit, leastLagLimit}, {"session-age", s.SessionAge, leastSessionAge}} {
		if limit.is > 0 && limit.is < limit.least {
			problems.add(KindService, name, limit.field, "%v",
				value.Invalid("duration", value.FormatDuration(limit.is), "0s for no limit, or at least "+value.FormatDuration(limit.least)))
		}
	}
	if s.SessionAge >= leastSessionAge && !s.Replays() {
		problems.add(KindService, name, "session-age", "sessions can only be moved with failover: replay: set failover, or session-age to 0s")
	}
	if s.Rebalance && !s.Replays() {
		problems.add(KindService, name, "rebalance", "sessions can only be moved with failover: replay: set failover, or rebalance to false")
	}
	if balance, _, _ := BalanceParts(s.Balance); s.Rebalance && balance == balanceHash {
		problems.add(KindService, name, "rebalance", "it would move clients away from the backends that balance: hash has chosen for them: use another balance, or set rebalance to false")
	}
	if s.CanaryText != "" && s.Canary == "" {
		problems.add(KindService, name, "canary-text", "there are no results without a canary: set canary to the path of a WAV file, or remove canary-text")
	}
	if s.CanaryModel != "" && s.Canary == "" {
		problems.add(KindService, name, "canary-model", "no model is asked for without a canary: set canary to the path of a WAV file, or remove canary-model")
	}
}

// FailoverWarnings returns what is likely to be wrong in what services set about failover and what clients are told. lookup returns a
// profile by its name, nil if it is not known.
func (s *Snapshot) FailoverWarnings(lookup func(name string) *profile.Profile) (warnings []string) {
	for name, service := range s.Services() {
		if p := lookup(service.Profile); p != nil {
			warnings = append(warnings, service.failoverWarnings(name, p)...)
		}
	}
	return warnings
}

// failoverWarnings returns what a service asks for, and its profile cannot do.
func (s *Service) failoverWarnings(name string, p *profile.Profile) (warnings []string) {
	can, tell := p.Failover(), p.Tell()
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	if s.Replays() {
		switch can.Verdict {
		case profile.Never:
			warn("the service %s has failover: replay, but sessions of the profile %s cannot be moved: %s", name, s.Profile, can.Why)
		case profile.Visible:
			warn("the service %s has failover: replay, which clients of the profile %s can tell: %s", name, s.Profile, can.Why)
		}
		if can.Verdict != profile.Never && can.UsualEncoding() == profile.EncodingOther {
			warn("the service %s has failover: replay, but by the profile %s the audio is compressed or in a container unless the client says otherwise, and such sessions are not moved: "+
				"if your clients send plain samples and do not say so, inherit from the profile with failover: {audio: {encoding: s16le}}", name, s.Profile)
		}
		if can.Verdict != profile.Never && s.ReplayWindow < usualUtterance {
			warn("the service %s has a replay-window of %s, but many utterances are longer, and a session is not moved in a longer one: use %s or more",
				name, value.FormatDuration(s.ReplayWindow), value.FormatDuration(usualUtterance))
		}
	}
	if can.Force {
		warn("the profile %s has failover.force, which no longer exists and never did anything: remove it", s.Profile)
	}
	if s.StallTimeout != 0 && can.Stall == profile.StallNone {
		warn("the service %s has a stall-timeout, but nothing in the profile %s tells a stalled server from one that has nothing to say", name, s.Profile)
	}
	switch {
	case s.LagLimit == 0:
	case !can.TellsLag():
		warn("the service %s has a lag-limit, which has no effect: nothing in the profile %s tells how late results come", name, s.Profile)
	case can.UsualEncoding() == profile.EncodingOther:
		warn("the service %s has a lag-limit, but by the profile %s the audio is compressed or in a container unless the client says otherwise, and it is not known how late the results of such sessions come",
			name, s.Profile)
	}
	if s.TellClients && !tell.Queues() && !tell.Moves() && !tell.Degrades() {
		warn("the service %s has tell-clients, but the profile %s has no messages for clients: inherit from it, and add tell: {queue: ..., moved: ..., degraded: ...}",
			name, s.Profile)
	}
	return warnings
}

func checkCanaryModel(name string) error {
	const most = 200
	if len(name) > most || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return fmt.Errorf("invalid name %.100q: use at most %d bytes of text without spaces", name, most)
	}
	return nil
}

func checkCanaryText(text string) error {
	const most = 1000
	if len(text) > most || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("invalid text: use at most %d bytes of text without control characters, on one line", most)
	}
	return nil
}
