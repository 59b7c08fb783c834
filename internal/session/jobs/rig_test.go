package jobs

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// rig is a proxy between clients and a server that the test plays, with jobs.
type rig struct {
	*sessiontest.Rig
	sessions *relay.Sessions
	jobs     *Jobs
}

// setup is what a test wants to be different.
type setup = sessiontest.Setup

func newRig(t testing.TB, o setup) *rig {
	t.Helper()
	r := new(rig)
	r.Rig = sessiontest.New(t, o, func(parts *sessiontest.Rig) sessiontest.Sessions {
		r.sessions = relay.NewSessions(parts.Shared, relay.Options{Loops: parts.Loops, Meters: parts.Meters, Replay: parts.Arena})
		r.jobs = New(r.sessions, parts.Shared.Guard)
		return withJobs{r.sessions, r.jobs}
	})
	return r
}

// newVoskRig returns a rig with several servers that speak Vosk's protocol, whose sessions may outlive them.
func newVoskRig(t *testing.T, servers int, o setup) *rig {
	t.Helper()
	r := newRig(t, sessiontest.Failover("vosk", servers, o))
	r.AllReady(max(o.Cap, 1), r.Backends...)
	return r
}

// withJobs is sessions whose jobs end before them.
type withJobs struct {
	*relay.Sessions
	jobs *Jobs
}

func (w withJobs) Close() {
	w.jobs.Close()
	w.Sessions.Close()
}

// id returns the id of the only session.
func (r *rig) id() (id record.ID) {
	r.T.Helper()
	wstest.Eventually(r.T, "there is a session", func() bool {
		ids := r.sessions.IDs()
		if len(ids) > 0 {
			id = ids[0]
		}
		return len(ids) > 0
	})
	return id
}

// idOf returns the id of the session whose client this is.
func (r *rig) idOf(p *wstest.Peer) (id record.ID) {
	r.T.Helper()
	wstest.Eventually(r.T, "the session is listed", func() bool {
		for _, d := range r.sessions.List() {
			if d.Client.String() == p.LocalAddr().String() {
				id = d.ID
				return true
			}
		}
		return false
	})
	return id
}

// mover takes all sessions to any loop and on to another without end, the way a group does, until stopped.
func (r *rig) mover() (moves *atomic.Int64, stop func()) {
	moves = new(atomic.Int64)
	quit := make(chan struct{})
	var tasks sync.WaitGroup
	tasks.Go(func() {
		loops := r.Loops.Loops()
		for {
			select {
			case <-quit:
				return
			default:
			}
			r.sessions.Each(r.sessions.All(), func(s *relay.Session) {
				s.MoveTo(loops[rand.IntN(len(loops))])
				moves.Add(1)
			})
		}
	})
	return moves, sync.OnceFunc(func() { close(quit); tasks.Wait() })
}
