package admission_test

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
)

// rig is a proxy between clients and a server that the test plays, whose gate hands clients over to real sessions.
type rig struct {
	*sessiontest.Rig
	sessions *relay.Sessions
}

// setup is what a test wants to be different.
type setup = sessiontest.Setup

func newRig(t testing.TB, o setup) *rig {
	t.Helper()
	r := new(rig)
	r.Rig = sessiontest.New(t, o, func(parts *sessiontest.Rig) sessiontest.Sessions {
		r.sessions = relay.NewSessions(parts.Shared, relay.Options{Loops: parts.Loops, Meters: parts.Meters, Replay: parts.Arena})
		return r.sessions
	})
	return r
}

// stats has the counts of the gate and of the sessions.
type stats struct {
	admission.Stats
	relay.SessionsStats
}

func (r *rig) stats() stats { return stats{r.Gate.Stats(), r.sessions.Stats()} }
