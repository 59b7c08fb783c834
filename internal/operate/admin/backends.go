package admin

import (
	"net/http"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// backendRoutes returns the route that lists the backends in use.
func (s *Source) backendRoutes() []route {
	return []route{{path: api.BackendsPath, methods: methods{
		http.MethodGet: served(func(_ http.ResponseWriter, r *http.Request) (any, error) {
			if err := onlyParameters(r, "service", "sort"); err != nil {
				return nil, err
			}
			order := r.URL.Query().Get("sort")
			if order != "" && !slices.Contains(api.BackendOrders, order) {
				return nil, BadRequest("sort: %v", spelling.Unknown("order", cut(order), api.BackendOrders))
			}
			all := s.Backends(order)
			if service := r.URL.Query().Get("service"); service != "" {
				all = slices.DeleteFunc(all, func(b api.BackendInUse) bool { return b.Service != service })
			}
			return all, nil
		}),
	}}}
}
