package session

import (
	"net"
	"strings"
)

// routes are the services by what clients ask for. They are immutable, so that whoever looks one up needs no lock.
type routes struct {
	services map[route]*Service
	byHost   bool // some are for one host only
}

type route struct{ host, path string }

// SetServices changes what clients can ask for, all of it in one step. Sessions go on, whatever becomes of their service. No two
// services may have the same host and path.
func (s *Server) SetServices(services []*Service) {
	r := &routes{services: make(map[route]*Service, len(services))}
	for _, service := range services {
		r.services[route{service.Host, service.Path}] = service
		r.byHost = r.byHost || service.Host != ""
	}
	s.routes.Store(r)
}

// find returns the service that a request is for, or nil: that of its host before one of any host, and that of its path before
// one of any path.
func (r *routes) find(host, path string) *Service {
	if r.byHost {
		host = withoutPort(host)
		for _, asked := range []route{{host, path}, {host, ""}} {
			if service := r.services[asked]; service != nil {
				return service
			}
		}
	}
	if service := r.services[route{"", path}]; service != nil {
		return service
	}
	return r.services[route{}]
}

// withoutPort returns the host of a Host header (RFC 9110, section 7.2) in lower case, an IPv6 address without its brackets, and a
// name without the dot that may end it.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
