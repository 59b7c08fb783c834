package relay

import (
	"os"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// rig is a proxy between clients and a server that the test plays, with the sessions of this package.
type rig struct {
	*sessiontest.Rig
	sessions *Sessions
}

// setup is what a test wants to be different.
type setup = sessiontest.Setup

// reconnectAll runs tests of this package with sessions whose clients may come back. Try it after changes of the relay:
//
//	WSBOUNCER_TEST_RECONNECT_ALL=1 go test -count=1 -skip "$SKIP" ./internal/session/relay
//
// where SKIP has those that must fail. These send a part of a message and expect it to arrive, but a line waits for the rest:
//
//	PingDuringLargeFrame|EmptyFrames|ClientBreaksProtocol|TextTurnsBad|WhatIsIdle|Faults|WithinMessage|PiecesAndShortMemory
//
// These expect another reason, or state, of a session whose client leaves:
//
//	ClientLeaves|ClientLeavesWhile.*|ClientLeavesBefore.*
//
// Those that last for more than pingEvery may get a ping that they do not expect.
var reconnectAll = os.Getenv("WSBOUNCER_TEST_RECONNECT_ALL") != ""

// newRig returns a rig. change may change the options of its sessions.
func newRig(t testing.TB, o setup, change ...func(*Options)) *rig {
	t.Helper()
	r := new(rig)
	t.Cleanup(func() { // the rig is closed before
		if n := r.sessions.throttled.Load(); n != 0 {
			t.Errorf("%d sessions are counted as held back after the last", n)
		}
	})
	o.TLS = overTLS
	if reconnectAll {
		change := o.Service
		o.Service = func(s *route.Service) {
			s.Reconnect = time.Nanosecond
			if change != nil {
				change(s)
			}
		}
	}
	r.Rig = sessiontest.New(t, o, func(parts *sessiontest.Rig) sessiontest.Sessions {
		if limitAll {
			parts.Scopes.SetProcess(route.Now(), tinyTurns)
		}
		options := Options{Loops: parts.Loops, Meters: parts.Meters, Replay: parts.Arena}
		for _, f := range change {
			f(&options)
		}
		r.sessions = NewSessions(parts.Shared, options)
		return r.sessions
	})
	if tapAll {
		r.tapAll()
	}
	return r
}

// newFailoverRig returns a rig with several servers, whose sessions may outlive them.
func newFailoverRig(t *testing.T, name string, servers int, o setup) *rig {
	t.Helper()
	r := newRig(t, sessiontest.Failover(name, servers, o))
	if r.Service.Profile.Predial == profile.PredialIdle { // idle connections are kept
		r.AllReady(max(o.Cap, 1), r.Backends...)
	}
	return r
}

// stats has the counts of the gate and of the sessions.
type stats struct {
	admission.Stats
	SessionsStats
}

func (r *rig) stats() stats { return stats{r.Gate.Stats(), r.sessions.Stats()} }

// on calls f with the only session there is, on its loop.
func (r *rig) on(f func(*Session)) {
	r.T.Helper()
	wstest.Eventually(r.T, "there is a session", func() bool {
		found := false
		r.each(func(s *Session) {
			if !found {
				found = true
				f(s)
			}
		})
		return found
	})
}

// each calls f with each session, on its loop.
func (r *rig) each(f func(*Session)) { r.sessions.Each(r.sessions.All(), f) }

// sent waits until the sockets of all sessions have taken all that was written: a loop of the Go runtime's sockets learns that only after
// the peer may have read it.
func (r *rig) sent() {
	r.T.Helper()
	wstest.Eventually(r.T, "the sockets have taken everything", func() bool {
		pending := 0
		r.each(func(s *Session) {
			pending += s.client.Pending()
			if to := s.leg.up.to; to != nil {
				pending += to.Pending()
			}
		})
		return pending == 0
	})
}
