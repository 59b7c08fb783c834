package app

import (
	"context"
	"errors"

	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/session/tap"
)

// startTap starts a tap for the admin API.
func (p *Proxy) startTap(q api.TapQuery) (admin.Tap, error) {
	o := tap.Options{Service: q.Service, Backend: q.Backend, Client: q.Client, First: q.First, Text: q.Text}
	if q.Session != "" {
		id, ok := record.ParseID(q.Session)
		if !ok {
			return nil, admin.ErrNoSession
		}
		o.ID = id
	}
	t, err := p.sessions.Tap(o)
	switch {
	case errors.Is(err, tap.ErrNoSession):
		return nil, admin.ErrNoSession
	case err != nil:
		return nil, admin.Busy("%v", err)
	}
	return shownTap{t}, nil
}

// shownTap is a tap in the types of the admin API.
type shownTap struct{ *tap.Tap }

// Next implements [admin.Tap].
func (t shownTap) Next(ctx context.Context) ([]api.TapEvent, bool, error) {
	events, more, err := t.Tap.Next(ctx)
	all := make([]api.TapEvent, len(events))
	for i := range events {
		all[i] = tapEventOf(&events[i])
	}
	return all, more, err
}

// tapEventOf returns what the API says of an event of a tap.
func tapEventOf(e *tap.Event) api.TapEvent {
	return api.TapEvent{
		Time: e.Time.UTC(), Session: e.Session, Event: e.Event, From: e.From, To: e.To, Kind: e.Kind, Size: e.Size, Fin: e.Fin,
		Text: e.Text, Cut: e.Cut, Code: e.Code, What: e.What, Reason: e.Reason, Service: e.Service, Backend: e.Backend, Client: e.Client,
		Seconds: e.Elapsed.Seconds(), Count: e.Count,
	}
}
