package admin

import (
	"fmt"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Sessions is what the API shows of sessions, and does to them. All functions may be called from any goroutine at any time.
type Sessions struct {
	// All returns all sessions and waiting clients, in no order. The caller may change the slice.
	All func() []api.Session
	// Ended returns the sessions that have ended, the latest first, as far as they are kept.
	Ended func() []api.Session
	// Detail returns a session or waiting client, or one that has ended and is remembered; false for an unknown id.
	Detail func(id string) (api.SessionDetail, bool)
	// Kill ends a session or a client's wait. It returns false if that is not there, or over already.
	Kill func(id, why string) bool
	// KillAll ends the sessions of a backend, spread evenly over a time, and returns how many there are; or an [Error] for a backend
	// that is not there.
	KillAll func(backend, why string, within time.Duration) (int, error)
}

func (s *Source) sessionRoutes() []route {
	return []route{
		{path: api.SessionsPath, action: "kill-all", methods: methods{
			http.MethodGet:    served(s.listSessions, anyParameter),
			http.MethodDelete: served(s.killAllSessions, "backend", "within"),
		}},
		{path: api.SessionsPath + "/{id}", action: "kill", methods: methods{
			http.MethodGet:    served(s.showSession),
			http.MethodDelete: served(s.killSession),
		}},
	}
}

// listSessions returns the sessions that the query chooses.
func (s *Source) listSessions(_ http.ResponseWriter, r *http.Request) (any, error) {
	query, err := api.ParseSessionQuery(r.URL.Query())
	if err != nil {
		return nil, BadRequest("%v", err)
	}
	all := s.Sessions.All()
	list := api.SessionList{Total: len(all)}
	if query.State == api.StateEnded {
		all = s.Sessions.Ended()
	}
	list.Sessions, list.Matched = query.Choose(all)
	return list, nil
}

// showSession returns one session.
func (s *Source) showSession(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	detail, ok := s.Sessions.Detail(id)
	if !ok {
		return nil, unknownSession(id)
	}
	return detail, nil
}

// killSession ends a session.
func (s *Source) killSession(w http.ResponseWriter, r *http.Request) (any, error) {
	order, err := readOrder(w, r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if !s.Sessions.Kill(id, order.Why) {
		detail, ok := s.Sessions.Detail(id)
		switch {
		case !ok:
			return nil, unknownSession(id)
		case detail.State == api.StateEnded:
			return nil, WrongState("session %s has ended: %s, code %d (%s)", id, detail.By, detail.Code, detail.Reason)
		}
		return nil, WrongState("session %s is ending: its state is %s", id, detail.State)
	}
	s.Audit.Note(r, "kill", id, order, "")
	return api.Outcome{Text: fmt.Sprintf("session %s is ended", id), Sessions: 1}, nil
}

// killAllSessions ends the sessions of a backend.
func (s *Source) killAllSessions(w http.ResponseWriter, r *http.Request) (any, error) {
	backend, text := r.URL.Query().Get("backend"), r.URL.Query().Get("within")
	if backend == "" {
		return nil, BadRequest("backend is missing: use ?backend=NAME to end all sessions of a backend")
	}
	within := time.Duration(0)
	if text != "" {
		var err error
		if within, err = time.ParseDuration(text); err != nil || within < 0 || within > api.MaxKillTime {
			return nil, BadRequest("within: invalid duration %.40q: use 0 (at once) to 1h, such as 30s", text)
		}
	}
	order, err := readOrder(w, r)
	if err != nil {
		return nil, err
	}
	n, err := s.Sessions.KillAll(backend, order.Why, within)
	if err != nil {
		return nil, err
	}
	result := fmt.Sprintf("%d sessions of backend %s are ended", n, backend)
	switch n {
	case 0:
		result = fmt.Sprintf("backend %s has no sessions", backend)
	case 1:
		result = fmt.Sprintf("1 session of backend %s is ended", backend)
	}
	if within > 0 && n > 0 {
		result += fmt.Sprintf(" within %v", within)
	}
	s.Audit.Note(r, "kill-all", backend, order, result)
	return api.Outcome{Text: result, Sessions: n}, nil
}

// unknownSession is the error for an id that no session has. It suggests no other: ids are not typed from memory, and one that is alike is
// another client's.
func unknownSession(id string) error {
	return &Error{
		Status: http.StatusNotFound, Kind: api.KindUnknown,
		Text: fmt.Sprintf("unknown session %q: it never was, or ended too long ago to be remembered", cut(id)),
	}
}
