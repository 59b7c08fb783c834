package admin

import (
	"fmt"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Movers move sessions to other backends. The functions return an [Error] for what is not there, and for a state that does not allow it.
// They may be called from any goroutine at any time, and do not wait for the sessions.
type Movers struct {
	// Backend moves the sessions of a backend: from timeout on, by replay.
	Backend func(name string, timeout time.Duration) (api.Moving, error)
	// Session moves one session, to the backend of that name, or to any other if that is empty.
	Session func(id, to string, timeout time.Duration) (api.Moving, error)
	// OfBackend and OfSession return the last order; false if there was none.
	OfBackend, OfSession func(what string) (api.Moving, bool)
}

func (s *Source) moveRoutes() []route {
	return []route{
		{path: api.BackendsPath + "/{name}/move", action: "move", methods: methods{
			http.MethodGet: served(func(_ http.ResponseWriter, r *http.Request) (any, error) {
				return last(r.PathValue("name"), "backend", s.Movers.OfBackend)
			}),
			http.MethodPost: served(s.moveBackend, "timeout"),
		}},
		{path: api.SessionsPath + "/{id}/move", action: "move", methods: methods{
			http.MethodGet: served(func(_ http.ResponseWriter, r *http.Request) (any, error) {
				return last(r.PathValue("id"), "session", s.Movers.OfSession)
			}),
			http.MethodPost: served(s.moveSession, "timeout", "to"),
		}},
	}
}

// last returns the last order about a backend or session.
func last(what, kind string, find func(string) (api.Moving, bool)) (any, error) {
	moving, ok := find(what)
	if !ok {
		return nil, &Error{Status: http.StatusNotFound, Kind: api.KindUnknown, Text: fmt.Sprintf("there was no order to move the %s %q: POST makes one", kind, cut(what))}
	}
	return moving, nil
}

func (s *Source) moveBackend(w http.ResponseWriter, r *http.Request) (any, error) {
	timeout, order, err := readMove(w, r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	moving, err := s.Movers.Backend(name, timeout)
	if err != nil {
		return nil, err
	}
	s.Audit.Note(r, "move", name, order, fmt.Sprintf("%d sessions, by replay after %v", len(moving.Sessions), timeout))
	return moving, nil
}

func (s *Source) moveSession(w http.ResponseWriter, r *http.Request) (any, error) {
	timeout, order, err := readMove(w, r)
	if err != nil {
		return nil, err
	}
	id, to := r.PathValue("id"), r.URL.Query().Get("to")
	detail, ok := s.Sessions.Detail(id)
	switch {
	case !ok:
		return nil, unknownSession(id)
	case detail.State == api.StateEnded:
		return nil, WrongState("session %s has ended: %s, code %d (%s)", id, detail.By, detail.Code, detail.Reason)
	case detail.State == api.StateWaiting:
		return nil, WrongState("session %s has no backend yet: it waits in the queue", id)
	}
	moving, err := s.Movers.Session(id, to, timeout)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("to any other backend, by replay after %v", timeout)
	if to != "" {
		text = fmt.Sprintf("to backend %s, by replay after %v", to, timeout)
	}
	s.Audit.Note(r, "move", id, order, text)
	return moving, nil
}

// readMove reads the time-out and the body of an order to move sessions.
func readMove(w http.ResponseWriter, r *http.Request) (timeout time.Duration, order api.Order, err error) {
	timeout = api.MoveTime
	if text := r.URL.Query().Get("timeout"); text != "" {
		if timeout, err = time.ParseDuration(text); err != nil || timeout < 0 || timeout > api.MaxMoveTime {
			return 0, order, BadRequest("timeout: invalid duration %.40q: use 0 (by replay at once) to 1h, such as 30s", text)
		}
	}
	order, err = readOrder(w, r)
	return timeout, order, err
}
