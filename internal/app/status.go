package app

import (
	"context"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Status says in one line what the proxy does. It waits for no event loop.
func (p *Proxy) Status() string {
	sessions := p.sessions.Active()
	if end := p.end.Load(); end != nil {
		t := end.timetable(&p.live.Load().Settings)
		switch {
		case end.closed.IsZero():
			return fmt.Sprintf("Shutting down: sessions: %d; clients are accepted until %s", sessions, t.closes.UTC().Format(time.TimeOnly+"Z"))
		case t.over.IsZero():
			return fmt.Sprintf("Draining: sessions: %d; no limit", sessions)
		}
		return fmt.Sprintf("Draining: sessions: %d; closed by %s", sessions, t.over.UTC().Format(time.TimeOnly+"Z"))
	}
	var s api.Stats
	p.services.Stats(&s)
	waiting, usable := 0, 0
	for i := range s.Services {
		waiting += s.Services[i].Queue.Waiting
	}
	for i := range s.Backends {
		if s.Backends[i].TakesSessions() {
			usable++
		}
	}
	text := fmt.Sprintf("Serving: sessions: %d, waiting clients: %d, usable backends: %d of %d", sessions, waiting, usable, len(s.Backends))
	if line := p.fleetLine(); line != "" {
		text += "; " + line
	}
	return text
}

// Responds returns nil as soon as each event loop has called a posted function, and an error when ctx ends before.
func (p *Proxy) Responds(ctx context.Context) error { return p.loops.Responds(ctx) }
