package admin

import (
	"net/http"

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

func (a *Actions) routes(audit *Audit) (routes []route) {
	for _, action := range []struct {
		path, name string
		do         func(string) (api.Outcome, error)
	}{
		{api.ServicesPath + "/{name}/pause", "pause", a.Pause},
		{api.ServicesPath + "/{name}/resume", "resume", a.Resume},
		{api.BackendsPath + "/{name}/recycle", "recycle", a.Recycle},
	} {
		routes = append(routes, route{path: action.path, action: action.name, methods: methods{
			http.MethodPost: served(func(w http.ResponseWriter, r *http.Request) (any, error) {
				return act(w, r, audit, action.name, action.do)
			}),
		}})
	}
	return routes
}

// act carries out an order for the service or backend that the path names, and notes it.
func act(w http.ResponseWriter, r *http.Request, audit *Audit, action string, do func(string) (api.Outcome, error)) (any, error) {
	if err := onlyParameters(r); err != nil {
		return nil, err
	}
	order, err := readOrder(w, r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	outcome, err := do(name)
	if err != nil {
		return nil, err
	}
	audit.Note(r, action, name, order, outcome.Text)
	return outcome, nil
}
