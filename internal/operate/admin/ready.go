package admin

import (
	"fmt"
	"net/http"
	"strings"
)

// Readiness is whether clients can be served. It is a copy.
type Readiness struct {
	// Reason is why the proxy is not ready; empty if it is.
	Reason string
	// AllServices tells that no service can be served for that reason, whatever its own says: the proxy takes no clients.
	AllServices bool
	// Services are all services, in the order in which they are shown.
	Services []ServiceReadiness
}

// ServiceReadiness is whether clients of a service can be served.
type ServiceReadiness struct {
	Name   string
	Reason string // why not; empty if they can
}

// ready serves /readyz: one line for the proxy, and one for each service. With ?service=NAME, it is about that service alone.
func (s *Source) ready(w http.ResponseWriter, r *http.Request) {
	now := s.Ready()
	lines := []string{verdict("", now.Reason)}
	status := http.StatusOK
	if now.Reason != "" {
		status = http.StatusServiceUnavailable
	}
	one, name := r.URL.Query().Has("service"), r.URL.Query().Get("service")
	found := false
	for _, v := range now.Services {
		reason := v.Reason
		if now.AllServices {
			reason = now.Reason
		}
		line := verdict("service "+v.Name, reason)
		if !one {
			lines = append(lines, line)
			continue
		}
		if v.Name != name {
			continue
		}
		found, lines, status = true, []string{line}, http.StatusOK
		if reason != "" {
			status = http.StatusServiceUnavailable
		}
	}
	if one && !found {
		text(w, http.StatusNotFound, fmt.Sprintf("no service %q", name))
		return
	}
	text(w, status, strings.Join(lines, "\n"))
}

// verdict returns a line that says whether something is ready; an empty name stands for the proxy.
func verdict(name, reason string) string {
	line := "ready"
	if reason != "" {
		line = "not ready"
	}
	for _, more := range []string{name, reason} {
		if more != "" {
			line += ": " + more
		}
	}
	return line
}
