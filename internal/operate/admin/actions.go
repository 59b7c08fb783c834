package admin

import (
	"net/http"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Actions are what operators do to services and backends of the running proxy. The functions return what was done, or an [Error] for a
// name that nothing has and for a state that does not allow it. They may be called from any goroutine at any time.
type Actions struct {
	// Pause makes the clients of a service wait, and Resume ends that.
	Pause, Resume func(service string) (api.Outcome, error)
	// Recycle replaces the connections of a backend as they come free.
	Recycle func(backend string) (api.Outcome, error)
}

func (s *Source) actionRoutes() (routes []route) {
	for _, action := range []struct {
		path, name string
		do         func(string) (api.Outcome, error)
	}{
		{api.ServicesPath + "/{name}/pause", "pause", s.Actions.Pause},
		{api.ServicesPath + "/{name}/resume", "resume", s.Actions.Resume},
		{api.BackendsPath + "/{name}/recycle", "recycle", s.Actions.Recycle},
	} {
		routes = append(routes, route{path: action.path, action: action.name, methods: methods{
			http.MethodPost: served(func(w http.ResponseWriter, r *http.Request) (any, error) {
				return s.act(w, r, action.name, action.do)
			}),
		}})
	}
	return routes
}

// act carries out an order for the service or backend that the path names, and notes it.
func (s *Source) act(w http.ResponseWriter, r *http.Request, action string, do func(string) (api.Outcome, error)) (any, error) {
	order, err := readOrder(w, r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	outcome, err := do(name)
	if err != nil {
		return nil, err
	}
	s.Audit.Note(r, action, name, order, outcome.Text)
	return outcome, nil
}

// LogLevel is the level of the process's log. Its functions may be called from any goroutine.
type LogLevel struct {
	// Get returns the level.
	Get func() string
	// Set changes it to one of Allowed. The error may be an [Error].
	Set func(level string) error
	// Allowed are all levels, the one that logs the most first.
	Allowed []string
}

// logLevelRoutes returns GET and PUT /api/v1/log/level.
func (s *Source) logLevelRoutes() []route {
	return []route{{path: api.LogLevelPath, action: "log-level", methods: methods{
		http.MethodGet: served(func(http.ResponseWriter, *http.Request) (any, error) {
			return api.LogLevel{Level: s.LogLevel.Get()}, nil
		}),
		http.MethodPut: served(s.setLogLevel),
	}}}
}

// setLogLevel sets the level, and notes that in the audit log.
func (s *Source) setLogLevel(w http.ResponseWriter, r *http.Request) (any, error) {
	var body api.LogLevel
	if err := readWithOrder(w, r, &body, &body.Order); err != nil {
		return nil, err
	}
	if body.Level == "" {
		return nil, BadRequest("level: the value is missing: use %s", spelling.OneOf(s.LogLevel.Allowed))
	}
	if !slices.Contains(s.LogLevel.Allowed, body.Level) {
		return nil, BadRequest("level: %v", spelling.Unknown("log level", cut(body.Level), s.LogLevel.Allowed))
	}
	was := s.LogLevel.Get()
	if err := s.LogLevel.Set(body.Level); err != nil {
		return nil, err
	}
	s.Audit.Note(r, "log-level", body.Level, body.Order, "it was "+was)
	return api.LogLevel{Level: body.Level}, nil
}

// backendRoutes returns the route that lists the backends in use.
func (s *Source) backendRoutes() []route {
	return []route{{path: api.BackendsPath, methods: methods{
		http.MethodGet: served(func(_ http.ResponseWriter, r *http.Request) (any, error) {
			order := r.URL.Query().Get("sort")
			if order != "" && !slices.Contains(api.BackendOrders, order) {
				return nil, BadRequest("sort: %v", spelling.Unknown("order", cut(order), api.BackendOrders))
			}
			all := s.Backends(order)
			if service := r.URL.Query().Get("service"); service != "" {
				all = slices.DeleteFunc(all, func(b api.BackendInUse) bool { return b.Service != service })
			}
			return all, nil
		}, "service", "sort"),
	}}}
}
