package route

import (
	"cmp"
	"net"
	"net/netip"
	"strings"
)

// Routes map what clients ask for to services. They are immutable, so that a lookup needs no lock.
type Routes struct {
	Services map[route]*Service
	ByName   map[string]*Service
	prefixes map[route]*Service // services that pass the path on, by prefix of clients' paths
	deepest  int                // segments of the longest prefix
	byHost   bool               // some services are for one host only
}

type route struct{ host, path string }

// NewRoutes returns the routes to services. No two services may have the same host and path.
func NewRoutes(services []*Service) *Routes {
	r := &Routes{Services: make(map[route]*Service, len(services)), ByName: make(map[string]*Service, len(services)), prefixes: make(map[route]*Service)}
	for _, service := range services {
		host := withoutPort(service.Host)
		r.Services[route{host, service.Path}] = service
		r.ByName[service.Name] = service
		if service.Path != "" && service.Passing != nil && service.Passing.Pass.Path {
			prefix := PrefixOf(service.Path)
			r.prefixes[route{host, prefix}] = service
			r.deepest = max(r.deepest, strings.Count(prefix, "/"))
		}
		r.byHost = r.byHost || service.Host != ""
	}
	return r
}

// Current returns a service as it is now, or as it was before it was removed.
func (r *Routes) Current(s *Service) *Service {
	return cmp.Or(r.ByName[s.Name], s)
}

// Find returns the service for a request, or nil. A service of the request's host comes before one of any host; a service of its path
// comes before the one with the longest prefix of it, and that before one of any path.
func (r *Routes) Find(host, path string) *Service {
	if r.byHost {
		if service := r.of(withoutPort(host), path); service != nil {
			return service
		}
	}
	return r.of("", path)
}

// of is find for the services of a host, or of any host.
func (r *Routes) of(host, path string) *Service {
	if service := r.Services[route{host, path}]; service != nil {
		return service
	}
	if service := r.longest(host, path); service != nil {
		return service
	}
	return r.Services[route{host, ""}]
}

// longest returns the service with the longest prefix of a path, by whole segments.
func (r *Routes) longest(host, path string) (service *Service) {
	if len(r.prefixes) == 0 {
		return nil
	}
	for n := range r.deepest + 1 {
		end := Segments(path, n)
		if longer := r.prefixes[route{host, path[:end]}]; longer != nil {
			service = longer
		}
		if end == len(path) {
			break
		}
	}
	return service
}

// PrefixOf returns a service's path as a prefix of clients' paths.
func PrefixOf(path string) string { return strings.TrimRight(path, "/") }

// withoutPort returns the host of a Host header (RFC 9110, section 7.2) in lower case, an IPv6 address without its brackets and in the
// spelling of RFC 5952, and a name without the dot that may end it.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Segments returns the length in bytes of the first n segments of a path, each with the slash before it.
func Segments(path string, n int) int {
	end := 0
	for range n {
		next := strings.IndexByte(path[min(end+1, len(path)):], '/')
		if next < 0 {
			return len(path)
		}
		end += 1 + next
	}
	return end
}
