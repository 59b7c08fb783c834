package app

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/jobs"
	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
)

// moveAwayTime is how long a session whose server's pod is about to end may take to come to an answered point before it moves by replay. Pods
// have 30 s by default (terminationGracePeriodSeconds).
const moveAwayTime = 10 * time.Second

// movers returns what moves sessions to other backends over the admin API.
func (p *Proxy) movers() admin.Movers {
	return admin.Movers{
		Backend: func(name string, timeout time.Duration) (api.Moving, error) {
			if err := p.services.HasBackend(name); err != nil {
				return api.Moving{}, err
			}
			return moveOrderOf(p.sessions.MoveBackend(name, timeout)), nil
		},
		Session: func(text, to string, timeout time.Duration) (api.Moving, error) {
			var target *backend.Backend
			if to != "" {
				var err error
				if target, err = p.services.Backend(to); err != nil {
					return api.Moving{}, err
				}
			}
			id, _ := record.ParseID(text)
			m, ok := p.sessions.MoveSession(id, target, timeout)
			if !ok {
				return api.Moving{}, admin.WrongState("session %s has ended", text)
			}
			return moveOrderOf(m), nil
		},
		OfBackend: func(name string) (api.Moving, bool) {
			m, ok := p.sessions.BackendMoveOrder(name)
			return moveOrderOf(m), ok
		},
		OfSession: func(text string) (api.Moving, bool) {
			id, ok := record.ParseID(text)
			if !ok {
				return api.Moving{}, false
			}
			m, ok := p.sessions.SessionMoveOrder(id)
			return moveOrderOf(m), ok
		},
	}
}

// moveOrderOf returns what the API says of an order to move sessions.
func moveOrderOf(m jobs.MoveOrder) api.Moving {
	shown := api.Moving{
		Backend: m.Backend, Begun: m.Begun.UTC(), Deadline: m.Deadline.UTC(), Done: m.Done, Replaced: m.Replaced,
		Sessions: make([]api.MovingSession, len(m.Sessions)),
	}
	for i, s := range m.Sessions {
		shown.Sessions[i] = api.MovingSession{ID: s.ID.String(), State: s.State.String(), To: s.To, Why: s.Why, ReplayedSeconds: s.Replayed.Seconds()}
	}
	return shown
}
